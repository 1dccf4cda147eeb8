"""A worker that is asked to end: what it had not sent goes back at once, what it had sent it finishes."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest

from budget.core import Budget
from hourglass.jobs.v1.job_pb2 import AttemptOutcome, JobState
from hourglass_client.transcript import Transcript
from tests.postgres import TestDatabase
from tests.stacks import START_LIMIT, Caller, calling, spec_of, stack_on
from tests.waiting import eventually

pytestmark = pytest.mark.timeout(120)
# No lease expires during the test; a statement that waits for a lock gives up soon and frees its row.
PATIENT_LEASES = {"LEASE": "60", "CUT_OFF": "48", "POLICIES": '{"postgres": {"limit": 1.0}}'}

# Nothing can be sent while the test holds the advisory lock: the start step waits for it, the claim does not.
HOLD_BACK_SENDS = """
CREATE FUNCTION hold_back() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN PERFORM pg_advisory_xact_lock_shared(42); RETURN NEW; END $$;
CREATE TRIGGER hold_back BEFORE UPDATE ON hourglass.jobs FOR EACH ROW
WHEN (OLD.send_time IS NULL AND NEW.send_time IS NOT NULL) EXECUTE FUNCTION hold_back();
"""


@asynccontextmanager
async def sends_held_back(database: TestDatabase) -> AsyncIterator[None]:
    connection = await asyncpg.connect(database.owner)
    try:
        await connection.execute(HOLD_BACK_SENDS)
        await connection.execute("SELECT pg_advisory_lock(42)")
        yield
    finally:
        await connection.close()


@pytest.mark.faults
@pytest.mark.scenario("S1", "S2")
async def test_jobs_that_were_not_sent_go_back_at_once_and_cost_nothing(
    database: TestDatabase, tmp_path: Path
) -> None:
    async with stack_on(database, tmp_path, worker=PATIENT_LEASES) as stack, calling(stack.jobs) as caller:
        async with sends_held_back(database):
            jobs = [await running_job(caller) for _ in range(3)]
            stopping = asyncio.create_task(stack.children["worker-1"].stop(budget=Budget.for_work(20)))
            for job_id in jobs:
                await until_state(caller, job_id, JobState.JOB_STATE_QUEUED, within=5.0)
            assert 0 == await stopping
        await stack.start_worker("worker-2", budget=Budget.for_work(START_LIMIT))
        for job_id in jobs:
            await caller.watch(job_id)
            job = await caller.get(job_id)
            assert [
                ("worker-1", AttemptOutcome.ATTEMPT_OUTCOME_NOT_SENT, False, 0),
                ("worker-2", AttemptOutcome.ATTEMPT_OUTCOME_SUCCEEDED, True, job.provider_cost.amount.nanos),
            ] == [(a.worker_id, a.outcome, a.counted, a.provider_cost.amount.nanos) for a in job.attempts]


async def running_job(caller: Caller) -> str:
    """Create a job and wait until a worker has claimed it; its id."""
    job_id = (await caller.create(spec_of("simulated-fast"))).job.job_id
    await until_state(caller, job_id, JobState.JOB_STATE_RUNNING, within=10.0)
    return job_id


async def until_state(caller: Caller, job_id: str, state: int, *, within: float) -> None:
    async def reached() -> bool:
        return (await caller.get(job_id)).state == state

    await eventually(reached, within=within)


@pytest.mark.faults
@pytest.mark.scenario("S1")
async def test_a_job_that_was_sent_is_finished_within_the_grace(
    database: TestDatabase, tmp_path: Path
) -> None:
    async with stack_on(database, tmp_path) as stack, calling(stack.jobs) as caller:
        job_id = (await caller.create(spec_of("simulated:tokens=40,tps=20"))).job.job_id

        def terminate_once_it_generates(transcript: Transcript) -> bool:
            if transcript.token_count >= 5 and stack.children["worker-1"].running:
                stack.children["worker-1"].signal(signal.SIGTERM)
                return True
            return False

        await caller.watch(job_id, seen=terminate_once_it_generates)
        assert 0 == await stack.children["worker-1"].ended()
        job = await caller.get(job_id)
    assert JobState.JOB_STATE_SUCCEEDED == job.state
    assert 1 == len(job.attempts)
