"""Calls far longer than their lease, on workers that are blocked or cut off for a moment: once each."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from budget.postgres import Database
from jobs_store.decisions import RetryTiming
from jobs_store.reaper import Reaper
from jobs_store.states import JobState
from tests.integration.worker.workers import attempts, outcomes
from tests.store import policy_of, time_enough
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from jobs_store.identifiers import JobId
    from tests.integration.worker.workers import Bench

SHORT_LEASE = {"lease": 1.0, "cut_off": 0.8, "renewal_interval": 0.2, "renewal_retry": 0.1, "wake_ups": False}
REAP_PAUSE = 0.1


@contextmanager
def somebody_reaps(bench: Bench) -> Iterator[list[int]]:
    """A reaper with a loop of its own, so that what blocks ours does not block it: how many runs each of its
    rounds took over."""
    taken_over: list[int] = []
    over = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(_reap(bench.database.worker, over, taken_over)))
    thread.start()
    try:
        yield taken_over
    finally:
        over.set()
        thread.join()
    assert len(taken_over) > 0


async def _reap(dsn: str, over: threading.Event, taken_over: list[int]) -> None:
    database = await Database.open(dsn, budget=time_enough(), size=1, application_name="other reaper")
    reaper = Reaper(
        database, policy_of, timing=RetryTiming(backoff_base=0.0), jitter=lambda most: most, page_size=100
    )
    try:
        while not over.is_set():
            taken_over.append((await reaper.reap(budget=time_enough())).taken_over)
            await asyncio.sleep(REAP_PAUSE)
    finally:
        await database.close(time_enough())


async def ran_once(bench: Bench, job: JobId, taken_over: list[int]) -> None:
    """The job succeeded in its first attempt, and the provider was called once."""
    detail = await bench.ends(job)
    assert (JobState.SUCCEEDED, ["SUCCEEDED"]) == (detail.job.state, outcomes(detail))
    assert 1 == attempts(detail)[0].number
    assert 0 == sum(taken_over)
    assert 1 == await bench.count("SELECT count(*) FROM hourglass.attempts")


@pytest.mark.faults
@pytest.mark.scenario("L1", "L2")
async def test_a_call_twenty_times_its_lease_runs_once_on_a_loop_that_is_blocked_most_of_the_time(
    bench: Bench,
) -> None:
    """The loop stands still for three seconds of every five, the lease lasts one. What the provider sent
    meanwhile is no silence of the provider, though it waited for longer than a silence may last."""
    job = await bench.job("simulated:tokens=200,tps=10", max_output_tokens=200)
    route = bench.route(between_tokens=2.0)
    with somebody_reaps(bench) as taken_over:
        async with bench.worker(routes=(route,), **SHORT_LEASE):
            await bench.sent(job)
            begun, blocked = time.monotonic(), 0
            while (await bench.get(job)).job.state is JobState.RUNNING:
                time.sleep(3.0)  # noqa: ASYNC251 - the loop is to be blocked
                blocked += 1
                await asyncio.sleep(2.0)
            took = time.monotonic() - begun
            await ran_once(bench, job, taken_over)
    assert took >= 20 * SHORT_LEASE["lease"] - 3.0
    assert blocked >= 4


@pytest.mark.faults
@pytest.mark.scenario("L2")
async def test_a_live_workers_long_call_is_never_taken_because_of_its_age(bench: Bench) -> None:
    """A day old, its time in the queue long over, and in the tenth length of its lease."""
    job = await bench.job("simulated:tokens=30,tps=10")
    with somebody_reaps(bench) as taken_over:
        async with bench.worker(**{**SHORT_LEASE, "lease": 0.3, "cut_off": 0.25, "renewal_interval": 0.1}):
            await bench.sent(job)
            await bench.administer(
                "UPDATE hourglass.jobs SET claim_time = claim_time - interval '1 day', "
                "send_time = send_time - interval '1 day', ready_time = ready_time - interval '1 day', "
                "queue_start_time = queue_start_time - interval '1 day', "
                "queue_deadline = queue_start_time, update_time = update_time - interval '1 day'"
            )
            await ran_once(bench, job, taken_over)


# A renewal waits at a gate, holding the rows that it renews: long enough for something to happen to it.
WAIT_IN_RENEWAL = """
CREATE FUNCTION hourglass.wait_in_renewal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('application_name') LIKE 'renewal%' THEN
        PERFORM pg_advisory_xact_lock_shared(42);
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER wait_in_renewal BEFORE UPDATE ON hourglass.jobs
    FOR EACH ROW EXECUTE FUNCTION hourglass.wait_in_renewal();
"""
WAITING = (
    "SELECT a.pid FROM pg_stat_activity a JOIN pg_locks l ON l.pid = a.pid "
    "WHERE l.locktype = 'advisory' AND NOT l.granted AND a.application_name LIKE 'renewal%' "
    "AND a.datname = current_database()"
)


@asynccontextmanager
async def renewal_at_the_gate(bench: Bench) -> AsyncIterator[tuple[Any, int]]:
    """A session that holds the gate, and the backend of the renewal that waits there."""
    await bench.administer(WAIT_IN_RENEWAL)
    holder = await asyncpg.connect(bench.database.owner)
    try:
        await holder.execute("SET deadlock_timeout = '30s'; SELECT pg_advisory_lock(42)")
        pid = await eventually(lambda: holder.fetchval(WAITING))
        yield holder, pid
    finally:
        await holder.close()


async def drop_the_connection(holder: Any, pid: int, job: JobId) -> None:
    """The renewal's own."""
    assert await holder.fetchval("SELECT pg_terminate_backend($1)", pid)


async def run_into_a_deadlock(holder: Any, pid: int, job: JobId) -> None:
    """The renewal holds the job's row and waits for the gate, whose holder now waits for the row."""
    async with holder.transaction():
        await holder.execute("SELECT FROM hourglass.jobs WHERE id = $1 FOR UPDATE", job)


@pytest.mark.faults
@pytest.mark.scenario("L5")
@pytest.mark.parametrize("break_it", [drop_the_connection, run_into_a_deadlock])
async def test_a_renewal_that_fails_once_costs_nothing_when_the_next_one_works(
    bench: Bench, break_it: Any
) -> None:
    job = await bench.job("simulated:tokens=40,tps=10")
    pace = {"lease": 3.5, "cut_off": 3.0, "renewal_interval": 0.2, "renewal_retry": 0.1, "wake_ups": False}
    with somebody_reaps(bench) as taken_over:
        async with bench.worker(**pace):
            await bench.sent(job)
            async with renewal_at_the_gate(bench) as (holder, pid):
                await break_it(holder, pid, job)
                left = await bench.lease_left(job)
            await eventually(lambda: _renewed(bench, job, left))
            await ran_once(bench, job, taken_over)


async def _renewed(bench: Bench, job: JobId, before: float) -> bool:
    return await bench.lease_left(job) > before
