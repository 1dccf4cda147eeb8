"""GetJob, ListJobs, WaitJob, CancelJob."""

import asyncio
import time
from decimal import Decimal
from typing import Any
from uuid import uuid4

import asyncpg
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from grpc import StatusCode

from hourglass.jobs.v1 import job_pb2
from hourglass.jobs.v1 import jobs_service_pb2 as pb
from servicekit.wire_money import amount_of
from tests.jobs import TENANT, Jobs, failure, of

pytestmark = pytest.mark.every_postgres


async def listed(jobs: Jobs, tenant: str = TENANT, **fields: Any) -> pb.ListJobsResponse:
    answer: pb.ListJobsResponse = await jobs.jobs.ListJobs(pb.ListJobsRequest(**fields), metadata=of(tenant))
    return answer


async def cancel(jobs: Jobs, job_id: str, tenant: str = TENANT) -> pb.CancelJobResponse:
    request = pb.CancelJobRequest(job_id=job_id, reason="not needed")
    answer: pb.CancelJobResponse = await jobs.jobs.CancelJob(request, metadata=of(tenant))
    return answer


async def test_another_tenants_job_is_not_found_like_one_that_never_was(jobs: Jobs) -> None:
    await jobs.fund("other", Decimal(1))
    theirs, nobodys = (await jobs.create("k1")).job.job_id, str(uuid4())
    for name, request in {
        "GetJob": pb.GetJobRequest,
        "WaitJob": pb.WaitJobRequest,
        "CancelJob": pb.CancelJobRequest,
    }.items():
        method = getattr(jobs.jobs, name)
        hidden = await failure(method(request(job_id=theirs), metadata=of("other")))
        absent = await failure(method(request(job_id=nobodys), metadata=of("other")))
        assert hidden.kind == absent.kind == (StatusCode.NOT_FOUND, "JOB_NOT_FOUND")
        assert hidden.message.replace(theirs, nobodys) == absent.message


@pytest.mark.parametrize("job_id", ["", "x", "{01890000-0000-7000-8000-000000000000}", "0" * 32])
async def test_a_job_id_that_is_none_is_refused(jobs: Jobs, job_id: str) -> None:
    refused = await failure(jobs.jobs.GetJob(pb.GetJobRequest(job_id=job_id), metadata=of(TENANT)))
    assert set(refused.violations) == {"job_id"}


async def test_pages_give_every_job_once_newest_first(jobs: Jobs) -> None:
    made = [(await jobs.create(f"k{number}")).job.job_id for number in range(7)]
    await cancel(jobs, made[2])
    seen, token = [], ""
    for _ in range(4):
        page = await listed(jobs, page_size=3, page_token=token)
        seen += [job.job_id for job in page.jobs]
        token = page.next_page_token
        if not token:
            break
    assert seen == made[::-1]


async def test_a_page_that_is_exactly_full_is_the_last(jobs: Jobs) -> None:
    for number in range(3):
        await jobs.create(f"k{number}")
    page = await listed(jobs, page_size=3)
    assert (len(page.jobs), page.next_page_token) == (3, "")


async def test_lists_are_filtered(jobs: Jobs) -> None:
    queued = (await jobs.create("k1")).job
    cancelled = (await jobs.create("k2", model="simulated-slow")).job
    await cancel(jobs, cancelled.job_id)
    by_state = await listed(jobs, states=[job_pb2.JOB_STATE_CANCELLED])
    assert [job.job_id for job in by_state.jobs] == [cancelled.job_id]
    by_model = await listed(jobs, model=queued.model)
    assert [job.job_id for job in by_model.jobs] == [queued.job_id]
    later = await listed(jobs, create_time_from=cancelled.create_time)
    assert [job.job_id for job in later.jobs] == [cancelled.job_id]
    earlier = await listed(jobs, create_time_before=cancelled.create_time)
    assert [job.job_id for job in earlier.jobs] == [queued.job_id]


async def test_a_page_token_belongs_to_its_tenant_and_its_filters(jobs: Jobs) -> None:
    await jobs.fund("other", Decimal(1))
    for number in range(2):
        await jobs.create(f"k{number}")
    token = (await listed(jobs, page_size=1)).next_page_token
    for foreign in (
        listed(jobs, "other", page_size=1, page_token=token),
        listed(jobs, page_size=1, page_token=token, model="simulated-fast"),
        listed(jobs, page_size=1, page_token="garbage"),
        listed(jobs, page_size=1, page_token=token[:12] + token[13:] + "A"),
    ):
        refused = await failure(foreign)
        assert refused.kind == (StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT")
        assert set(refused.violations) == {"page_token"}


async def test_everything_that_is_wrong_with_a_list_is_told_at_once(jobs: Jobs) -> None:
    states: Any = [0, 99]
    request = pb.ListJobsRequest(
        page_size=-1, page_token="x", states=states, create_time_from=Timestamp(nanos=-1), model="a\0"
    )
    refused = await failure(jobs.jobs.ListJobs(request, metadata=of(TENANT)))
    assert set(refused.violations) == {
        "page_size",
        "page_token",
        "states[0]",
        "states[1]",
        "create_time_from",
        "model",
    }


async def test_a_wait_answers_the_job_as_it_is_before_its_deadline(jobs: Jobs) -> None:
    job_id = (await jobs.create("k1")).job.job_id
    started = time.monotonic()
    answer = await jobs.jobs.WaitJob(pb.WaitJobRequest(job_id=job_id), metadata=of(TENANT), timeout=1)
    took = time.monotonic() - started
    assert answer.job.state == job_pb2.JOB_STATE_QUEUED
    assert 0.3 < took < 1


@pytest.mark.parametrize("timeout", [0.25, 2.0])
async def test_a_wait_that_cannot_even_look_blames_the_database_and_never_the_deadline(
    jobs: Jobs, timeout: float
) -> None:
    job_id = (await jobs.create("k1")).job.job_id
    blocking: asyncpg.Connection[asyncpg.Record] = await asyncpg.connect(jobs.database.owner)
    try:
        async with blocking.transaction():
            await blocking.execute("LOCK TABLE hourglass.jobs IN ACCESS EXCLUSIVE MODE")
            request = pb.WaitJobRequest(job_id=job_id)
            refused = await failure(jobs.jobs.WaitJob(request, metadata=of(TENANT), timeout=timeout))
    finally:
        await blocking.close()
    assert (StatusCode.UNAVAILABLE, "DATABASE_TIMEOUT") == refused.kind


async def test_a_wait_ends_when_the_job_does(jobs: Jobs) -> None:
    job_id = (await jobs.create("k1")).job.job_id
    request = pb.WaitJobRequest(job_id=job_id, include_content=True)
    waiting = asyncio.ensure_future(jobs.jobs.WaitJob(request, metadata=of(TENANT), timeout=30))
    await cancel(jobs, job_id)
    answer = await waiting
    assert answer.job.state == job_pb2.JOB_STATE_CANCELLED
    assert answer.job.spec.messages


async def test_a_queued_job_is_cancelled_at_once_and_its_money_goes_back(jobs: Jobs) -> None:
    job_id = (await jobs.create("k1")).job.job_id
    answer = await cancel(jobs, job_id)
    assert answer.outcome == pb.CANCEL_OUTCOME_CANCELLED
    assert (answer.job.state, answer.job.state_cause) == (job_pb2.JOB_STATE_CANCELLED, "USER_CANCEL")
    assert amount_of(answer.job.charge.reserved_amount) == 0
    assert (await cancel(jobs, job_id)).outcome == pb.CANCEL_OUTCOME_ALREADY_TERMINAL
    funds = (await jobs.sql("SELECT available, reserved, captured FROM hourglass.tenant_funds"))[0]
    assert tuple(funds) == (10, 0, 0)
