"""A provider's key is rotated: somebody is told, once, and the jobs wait until it is mended."""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

import pytest
import structlog
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from pydantic import SecretStr

from hourglass.jobs.v1 import admin_service_pb2 as admin_pb
from hourglass.jobs.v1 import job_pb2
from tests.integration.servicekit.metrics import points
from tests.postgres import TestDatabase
from tests.scenarios.everyday import assert_funds_balance
from tests.scenarios.runs import Runs, running, worker_settings
from tests.waiting import eventually
from worker.app import Worker, working

LANE = "simulated/simulated-fast"
MODEL = "simulated-fast:tokens=31"
BODY = b'{"error": {"code": "invalid_api_key", "message": "no such key", "type": "invalid_request_error"}}'
REFUSAL = (
    b"HTTP/1.1 401 Unauthorized\r\ncontent-type: application/json\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%s" % (len(BODY), BODY)
)
PARKED = "hourglass.worker.lanes.parked"
PARKINGS = "hourglass.worker.lanes.parkings"


async def create(runs: Runs, number: int) -> str:
    answer = await runs.jobs.create(f"job {number}", model=MODEL, max_attempt_count=1)
    return str(answer.job.job_id)


async def refused(runs: Runs) -> bool:
    """Whether the lane was parked, opened, and refused again."""
    found = await runs.jobs.sql("SELECT count(*) FROM hourglass.attempts WHERE cause = 'CREDENTIALS_REFUSED'")
    return int(found[0][0]) >= 3


def alarms(log: Sequence[Any]) -> list[tuple[str, str, str]]:
    return [
        (line["log_level"], line["lane"], line["cause"])
        for line in log
        if line["event"].startswith("lane parked")
    ]


@pytest.mark.scenario("U4")
async def test_a_rotated_key_raises_one_alarm_and_the_jobs_go_on_when_it_is_mended(
    measured: InMemoryMetricReader, database: TestDatabase, simulated: str
) -> None:
    """Mended as in a deployment: workers start with the new key, and an operator resumes the lane."""
    elsewhere = ("simulated-slow",)
    async with running(database, simulated, models=elsewhere) as runs:
        runs.to_provider.guard(b"Bearer new", REFUSAL)
        jobs = [await create(runs, number) for number in range(3)]
        with structlog.testing.capture_logs() as log:
            async with worker(runs, database, "old", platform_park=0.3):
                await eventually(partial(refused, runs), within=10.0)
                assert {(LANE, "CREDENTIALS_REFUSED"): 1} == shown(measured, PARKED)
        assert [("error", LANE, "CREDENTIALS_REFUSED")] == alarms(log)
        assert shown(measured, PARKINGS)[LANE, "CREDENTIALS_REFUSED"] >= 3
        async with worker(runs, database, "old", platform_park=600.0):
            await eventually(partial(parked_for_long, runs), within=10.0)
        async with worker(runs, database, "new"):
            request = admin_pb.ResumeLaneRequest(lane=LANE, request_id="mended", reason="a new key")
            await runs.jobs.admin.ResumeLane(request, timeout=10)
            ended = [await runs.ended(job_id) for job_id in jobs]
        assert {job_pb2.JOB_STATE_SUCCEEDED} == {job.state for job in ended}
        assert [1, 1, 1] == [sum(attempt.counted for attempt in job.attempts) for job in ended]
        await assert_funds_balance(runs)


def worker(
    runs: Runs, database: TestDatabase, key: str, **settings: Any
) -> AbstractAsyncContextManager[Worker]:
    """A worker with this key."""
    changed = {"api_key": SecretStr(key), "name": f"worker {key}", **settings}
    return working(worker_settings(database, runs.to_provider.port, changed), asyncio.Event())


async def parked_for_long(runs: Runs) -> bool:
    found = await runs.jobs.sql(
        "SELECT FROM hourglass.lanes WHERE park_until > clock_timestamp() + interval '1 minute'"
    )
    return len(found) == 1


@pytest.mark.scenario("U4")
async def test_the_alarm_is_cleared_by_the_first_answer(
    measured: InMemoryMetricReader, database: TestDatabase, simulated: str
) -> None:
    """The provider takes the old key again: the same worker goes on by itself, and says so."""
    with structlog.testing.capture_logs() as log:
        async with running(database, simulated, api_key=SecretStr("old"), platform_park=0.3) as runs:
            runs.to_provider.guard(b"Bearer new", REFUSAL)
            job_id = await create(runs, 1)
            await eventually(lambda: shown(measured, PARKED), within=10.0)
            runs.to_provider.guard(b"Bearer old", REFUSAL)
            assert job_pb2.JOB_STATE_SUCCEEDED == (await runs.ended(job_id)).state
            assert {(LANE, "CREDENTIALS_REFUSED"): 0} == shown(measured, PARKED)
            assert 1 == len(alarms(log))
            assert [LANE] == [line["lane"] for line in log if line["event"] == "lane answers again"]


def shown(reader: InMemoryMetricReader, name: str) -> dict[tuple[str, str], int]:
    """A metric's values by lane and cause."""
    return {
        (point.attributes["lane"], point.attributes["cause"]): int(point.value)
        for point in points(reader, name)
    }
