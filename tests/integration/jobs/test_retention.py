"""JobService trims what is old by its own settings; callers are told what they cannot have any more."""

from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import pytest
from grpc import StatusCode

from hourglass.jobs.v1 import jobs_service_pb2 as pb
from jobs_store.lifetimes import DAY, Lifetimes
from tests.jobs import TENANT, Jobs, failure, jobs_server, of, pricing_server
from tests.postgres import TestDatabase
from tests.waiting import eventually

pytestmark = pytest.mark.every_postgres

SHORT = Lifetimes(payload=0.0, events=0.0, result=DAY, attempts=DAY, jobs=DAY)


@pytest.fixture
async def forgetful(database: TestDatabase) -> AsyncIterator[Jobs]:
    """JobService that forgets payloads and logs of jobs as soon as they have ended."""
    async with (
        pricing_server() as pricing,
        jobs_server(
            database, pricing=pricing, retention=SHORT, retention_interval=0.05, reap_wait=0.0
        ) as running,
    ):
        await running.fund(TENANT, Decimal(10))
        yield running


async def cancelled_job(jobs: Jobs, key: str) -> pb.CreateJobResponse:
    created = await jobs.create(key)
    request = pb.CancelJobRequest(job_id=created.job.job_id)
    await jobs.jobs.CancelJob(request, metadata=of(TENANT))
    return created


def watch(jobs: Jobs, job_id: str, after: int) -> Any:
    request = pb.WatchJobRequest(job_id=job_id, after_sequence=after)
    return jobs.jobs.WatchJob(request, metadata=of(TENANT), timeout=10)


async def forgotten(jobs: Jobs, job_id: str) -> None:
    """Until the job's log has gone."""

    async def gone() -> bool:
        rows = await jobs.sql("SELECT 1 FROM hourglass.job_events WHERE job_id = $1::text::uuid", job_id)
        return not rows

    await eventually(gone, within=20)


async def test_a_job_service_forgets_what_its_settings_say(forgetful: Jobs) -> None:
    job_id = (await cancelled_job(forgetful, "k1")).job.job_id
    await forgotten(forgetful, job_id)
    request = pb.GetJobRequest(job_id=job_id, include_content=True, include_attempts=True)
    job = (await forgetful.jobs.GetJob(request, metadata=of(TENANT))).job
    assert (job_id, False) == (job.job_id, job.HasField("spec"))
    assert 1 == len(job.charge.reservations)


@pytest.mark.scenario("I2")
async def test_the_key_of_a_forgotten_payload_still_answers_with_its_job(forgetful: Jobs) -> None:
    created = await cancelled_job(forgetful, "k1")
    await forgotten(forgetful, created.job.job_id)
    again = await forgetful.create("k1")
    assert (created.job.job_id, True) == (again.job.job_id, again.replayed)


@pytest.mark.scenario("W2")
async def test_a_cursor_in_a_log_that_is_not_kept_is_out_of_range(forgetful: Jobs) -> None:
    job_id = (await cancelled_job(forgetful, "k1")).job.job_id
    await forgotten(forgetful, job_id)
    refusals = [await failure(watch(forgetful, job_id, after).read()) for after in (0, 2**32 + 1)]
    for refused in refusals:
        assert refused.kind == (StatusCode.OUT_OF_RANGE, "CURSOR_OUT_OF_RANGE")
    end = int(refusals[0].metadata["last_sequence"])
    assert [] == [each async for each in watch(forgetful, job_id, end)]
