"""The client while processes die: a killed server costs it a reconnect, a killed worker an epoch."""

import asyncio
import signal
from pathlib import Path
from random import Random

import pytest

from budget.core import Budget
from budget.retry import Backoff, Retries
from hourglass.jobs.v1.job_pb2 import AttemptOutcome, JobState
from hourglass_client import AsyncClient, Client, Terms, Transcript
from launcher.stack import JOBS, Stack
from tests.postgres import TestDatabase
from tests.stacks import RETRY, START_LIMIT, spec_of, stack_on
from tests.system.readers import log_of, read_in_parts

pytestmark = [pytest.mark.faults, pytest.mark.timeout(120)]
SLOW = "simulated:tokens=60,tps=20"
TWO = ("worker-1", "worker-2")


async def _kill_the_worker(stack: Stack, client: AsyncClient, job_id: str, *, after: int) -> None:
    """Kill whoever runs the job once so many tokens have come."""
    async with client.watch(job_id) as events:
        async for _ in events:
            if events.transcript.token_count >= after:
                break
    started = [e.attempt_started for e in events.transcript.events if e.HasField("attempt_started")]
    stack.children[started[-1].worker_id].signal(signal.SIGKILL)


@pytest.mark.scenario("W2")
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
async def test_a_watch_outlives_its_server_and_goes_on_at_another(
    database: TestDatabase, tmp_path: Path, end: signal.Signals
) -> None:
    async with stack_on(database, tmp_path) as stack:
        other = await stack.start_jobs("jobs-2", budget=Budget.for_work(START_LIMIT))
        target = f"ipv4:{stack.jobs},{other.address}"
        async with AsyncClient.connect(target) as client:
            job_id = (await client.create(spec_of(SLOW))).job.job_id
            blocking = asyncio.create_task(asyncio.to_thread(_read_blocking, target, job_id))
            async with client.watch(job_id) as events:
                async for _ in events:
                    if events.transcript.token_count == 10:
                        stack.children[JOBS].signal(end)
            job = await client.wait(job_id, content=True)
            transcript = await blocking
            log = await log_of(client, job_id)
    assert JobState.JOB_STATE_SUCCEEDED == job.state
    assert job.result.text == events.text == transcript.text
    assert log == events.transcript.events == transcript.events


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


@pytest.mark.scenario("W3", "W7")
async def test_what_readers_keep_over_200_reconnects_and_a_killed_worker_is_the_log_of_the_store(
    database: TestDatabase, tmp_path: Path
) -> None:
    async with (
        stack_on(database, tmp_path, workers=TWO) as stack,
        AsyncClient.connect(stack.jobs) as client,
    ):
        spec = spec_of(SLOW, unknown_outcome_policy=RETRY)
        job_id = (await client.create(spec)).job.job_id
        readers = [
            asyncio.create_task(read_in_parts(client, job_id, parts=10, random=Random(n))) for n in range(20)
        ]
        await _kill_the_worker(stack, client, job_id, after=15)
        transcripts = await asyncio.gather(*readers)
        job = await client.get(job_id, attempts=True, content=True)
        log = await log_of(client, job_id)
    outcomes = [AttemptOutcome.Name(one.outcome).removeprefix("ATTEMPT_OUTCOME_") for one in job.attempts]
    assert ["UNKNOWN", "SUCCEEDED"] == outcomes
    for transcript in transcripts:
        assert log == transcript.events
        assert job.result.text == transcript.text
