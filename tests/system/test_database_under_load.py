"""What the database shows of the whole stack under load, and while its processes are killed."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest

from budget.core import Budget
from hourglass.jobs.v1.job_pb2 import JobState
from launcher.stack import JOBS
from tests.postgres import TestDatabase
from tests.stacks import RETRY, START_LIMIT, Caller, calling, rows, spec_of, stack_on
from tests.waiting import eventually

pytestmark = [pytest.mark.faults, pytest.mark.timeout(120)]

LONGEST_TRANSACTION = 1.0
REAP_INTERVAL = 1.0
LOOK = 0.02
OLDEST_TRANSACTION = """
SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0)::double precision
FROM pg_stat_activity
WHERE datname = current_database() AND usename LIKE 'hourglass\\_%' AND pid <> pg_backend_pid()
"""
OLDEST_EXPIRED_LEASE = """
SELECT coalesce(max(extract(epoch FROM clock_timestamp() - lease_until)), 0)::double precision
FROM hourglass.jobs WHERE state = 'RUNNING'
"""


@asynccontextmanager
async def watched(database: TestDatabase, figure: str) -> AsyncIterator[list[float]]:
    """What a query answered, again and again, during the block."""
    seen: list[float] = []
    over = asyncio.Event()

    async def look() -> None:
        connection = await asyncpg.connect(database.owner)
        try:
            while not over.is_set():
                seen.append(await connection.fetchval(figure))
                await asyncio.sleep(LOOK)
        finally:
            await connection.close()

    async with asyncio.TaskGroup() as group:
        group.create_task(look())
        try:
            yield seen
        finally:
            over.set()


async def create_many(caller: Caller, model: str, count: int) -> list[str]:
    """Jobs, eight creates at a time."""
    room = asyncio.Semaphore(8)

    async def create() -> str:
        async with room:
            created = await caller.create(spec_of(model, unknown_outcome_policy=RETRY))
            return str(created.job.job_id)

    return await asyncio.gather(*(create() for _ in range(count)))


async def all_ended(database: TestDatabase, count: int) -> bool:
    (found,) = await rows(database, "SELECT count(*) AS n FROM hourglass.finished_jobs")
    return bool(found["n"] == count)


@pytest.mark.scenario("D2")
async def test_no_transaction_of_ours_is_open_for_more_than_a_second_under_load(
    database: TestDatabase, tmp_path: Path
) -> None:
    """Though calls of models take longer than that, and watchers wait for them."""
    two = ("worker-1", "worker-2")
    async with (
        stack_on(database, tmp_path, workers=two) as stack,
        calling(stack.jobs) as caller,
        watched(database, OLDEST_TRANSACTION) as seen,
    ):
        slow = await create_many(caller, "simulated:tokens=30,tps=10", 10)
        quick = await create_many(caller, "simulated-fast:tokens=4", 150)
        transcripts = await asyncio.gather(*(caller.watch(job) for job in slow))
        await eventually(lambda: all_ended(database, len(slow) + len(quick)), within=40.0)
    assert len(slow) == len(transcripts)
    assert len(seen) > 50
    assert max(seen) < LONGEST_TRANSACTION


@pytest.mark.scenario("L6", "L7")
async def test_no_run_has_a_lease_older_than_two_rounds_of_the_reaper_whatever_is_killed(
    database: TestDatabase, tmp_path: Path
) -> None:
    """Workers and job services die in turns, each with a reaper in it; the jobs end all the same."""
    pace = {"REAP_INTERVAL": str(REAP_INTERVAL)}
    two = ("worker-1", "worker-2")
    async with (
        stack_on(database, tmp_path, workers=two, worker=pace, jobs=pace) as stack,
        watched(database, OLDEST_EXPIRED_LEASE) as seen,
    ):
        async with calling(stack.jobs) as caller:
            jobs = await create_many(caller, "simulated:tokens=60,tps=10", 12)
        await eventually(lambda: running(database, 12), within=10.0)
        stack.children["worker-1"].signal(signal.SIGKILL)
        await eventually(lambda: running_on(database, "worker-1", 0), within=15.0)
        second = await stack.start_jobs("jobs-2", budget=Budget.for_work(START_LIMIT))
        await stack.children[JOBS].kill()
        stack.children["worker-2"].signal(signal.SIGKILL)
        await stack.start_worker("worker-3", budget=Budget.for_work(START_LIMIT))
        await eventually(lambda: all_ended(database, len(jobs)), within=60.0)
        async with calling(second.address) as caller:
            states = {(await caller.get(job)).state for job in jobs}
    assert {JobState.JOB_STATE_SUCCEEDED} == states
    assert 0.0 < max(seen) < 2 * REAP_INTERVAL


async def running(database: TestDatabase, count: int) -> bool:
    (found,) = await rows(database, "SELECT count(*) AS n FROM hourglass.jobs WHERE send_time IS NOT NULL")
    return bool(found["n"] == count)


async def running_on(database: TestDatabase, worker: str, count: int) -> bool:
    (found,) = await rows(database, "SELECT count(*) AS n FROM hourglass.jobs WHERE worker_id = $1", worker)
    return bool(found["n"] == count)
