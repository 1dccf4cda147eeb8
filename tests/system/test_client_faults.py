"""The client while servers die: it goes on at another, or where they were when they are back."""

import asyncio
import signal
from pathlib import Path

import pytest

from budget.core import Budget
from budget.retry import Backoff, Retries
from hourglass.jobs.v1.job_pb2 import JobState
from hourglass_client import AsyncClient, Client, Terms, Transcript
from launcher.stack import JOBS
from tests.postgres import TestDatabase
from tests.stacks import START_LIMIT, calling, spec_of, stack_on
from tests.system.readers import log_of

pytestmark = [pytest.mark.faults, pytest.mark.timeout(120)]
SLOW = "simulated:tokens=60,tps=20"


@pytest.mark.scenario("W2")
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
async def test_a_watch_outlives_its_server_and_goes_on_at_another(
    database: TestDatabase, tmp_path: Path, end: signal.Signals
) -> None:
    """So does a reader of the bare stub that asks the other server for what comes after its cursor."""
    async with stack_on(database, tmp_path) as stack:
        other = await stack.start_jobs("jobs-2", budget=Budget.for_work(START_LIMIT))
        target = f"ipv4:{stack.jobs},{other.address}"
        async with AsyncClient.connect(target) as client:
            job_id = (await client.create(spec_of(SLOW))).job.job_id
            blocking = asyncio.create_task(asyncio.to_thread(_read_blocking, target, job_id))
            async with calling(stack.jobs) as caller:
                bare = await caller.watch(job_id, seen=lambda seen: seen.token_count >= 10)
            async with client.watch(job_id) as events:
                async for _ in events:
                    if events.transcript.token_count == 10:
                        stack.children[JOBS].signal(end)
            job = await client.wait(job_id, content=True)
            transcript = await blocking
            log = await log_of(client, job_id)
        async with calling(other.address) as caller:
            await caller.watch(job_id, bare)
    assert JobState.JOB_STATE_SUCCEEDED == job.state
    assert job.result.text == events.text == transcript.text == bare.text
    assert log == events.transcript.events == transcript.events == bare.events


def _read_blocking(target: str, job_id: str) -> Transcript:
    with Client.connect(target) as client, client.watch(job_id) as events:
        for _ in events:
            pass
    return events.transcript


@pytest.mark.scenario("W2")
async def test_a_client_bears_the_restart_of_its_only_server(database: TestDatabase, tmp_path: Path) -> None:
    """The same address answers again: a create, a wait and a watch that were under way all end well."""
    patient = Terms(retries=Retries(backoff=Backoff(base=4.0, cap=4.0)))
    async with (
        stack_on(database, tmp_path) as stack,
        AsyncClient.connect(stack.jobs, terms=patient) as client,
    ):
        address = stack.jobs
        job_id = (await client.create(spec_of(SLOW))).job.job_id
        watching = asyncio.create_task(log_of(client, job_id))
        waiting = asyncio.create_task(client.wait(job_id, content=True))
        async with client.watch(job_id) as events:
            while events.transcript.token_count < 5:
                await anext(events)
        await stack.children[JOBS].kill()
        creating = asyncio.create_task(client.create(spec_of("simulated-fast"), timeout=60.0))
        await stack.start_jobs("jobs-2", budget=Budget.for_work(START_LIMIT), environment={"LISTEN": address})
        job, seen = await waiting, await watching
        assert not (await creating).replayed
    assert JobState.JOB_STATE_SUCCEEDED == job.state
    assert job.result.text == Transcript.of(seen).text
