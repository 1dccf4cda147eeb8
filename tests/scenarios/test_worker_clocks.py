"""Workers whose wall clocks are ten minutes off: the database's clock is the one that counts."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from budget.core import Budget
from hourglass.jobs.v1.job_pb2 import AttemptOutcome, Job, JobState
from launcher import components
from launcher.components import SIMULATED
from launcher.processes import Child
from launcher.readiness import until_ready
from launcher.stack import Stack
from tests import stepped_clock
from tests.jobs import seconds
from tests.postgres import TestDatabase
from tests.scenarios.kills import NEVER, assert_invariants, route
from tests.stacks import QUICK_WORKER, START_LIMIT, Caller, calling, spec_of, stack_on
from tests.waiting import eventually

pytestmark = [pytest.mark.faults, pytest.mark.timeout(150)]

TEN_MINUTES = 600
LEASE = {"LEASE": "6", "CUT_OFF": "5"}
JOBS = {"REAP_WAIT": NEVER, "POLICIES": '{"postgres": {"limit": 8}, "pricing": {"limit": 8}}'}
"""Takes over nothing, and has the time that a busy machine may need."""
STOP_LIMIT = 20.0
TERMINAL = {JobState.JOB_STATE_SUCCEEDED, JobState.JOB_STATE_FAILED, JobState.JOB_STATE_EXPIRED}
AHEAD, BEHIND = "simulated-fast", "simulated-slow"
"""Lanes: each of the workers has one."""


@asynccontextmanager
async def worker(
    stack: Stack, database: TestDatabase, off: int, lane: str, logs: Path
) -> AsyncIterator[None]:
    """A worker with such a clock, and a lane of its own."""
    settings = {**QUICK_WORKER, **LEASE, "ROUTES": route(f"{stack.models[SIMULATED]}/v1", [lane])}
    command = components.worker(f"worker-{lane}", settings, database=database.worker, models=stack.models)
    command = replace(command, environment={**command.environment, **stepped_clock.off_by(off)})
    child = await Child.start(command, logs=logs, budget=Budget.for_work(START_LIMIT))
    try:
        await until_ready(child.address, budget=Budget.for_work(START_LIMIT))
        yield
    finally:
        await child.stop(budget=Budget.for_work(STOP_LIMIT))


async def ended(caller: Caller, job_id: str) -> Job:
    async def terminal() -> Job | None:
        job = await caller.get(job_id)
        return job if job.state in TERMINAL else None

    job = await eventually(terminal, within=30.0)
    assert job is not None
    return job


async def made(caller: Caller, lane: str) -> Mapping[str, str]:
    """Jobs of a lane: one longer than the lease, one that fails twice, and two that nobody runs."""
    specs = {
        "long": spec_of(f"{lane}:tokens=24,tps=3"),
        "failing": spec_of(f"{lane}:status=500", max_attempt_count=2),
        "waiting": spec_of("smollm2-135m", queue_timeout_duration=seconds(300)),
        "late": spec_of("smollm2-135m", queue_timeout_duration=seconds(2)),
    }
    return {name: (await caller.create(spec)).job.job_id for name, spec in specs.items()}


@pytest.mark.skipif(stepped_clock.LIBRARY is None, reason=f"no libfaketime: {stepped_clock.HOW_TO_INSTALL}")
@pytest.mark.scenario("O5")
async def test_workers_whose_clocks_are_ten_minutes_off_harm_no_lease_backoff_or_expiry(
    database: TestDatabase, tmp_path: Path
) -> None:
    """One is ahead, one behind, and only they reap."""
    async with (
        stack_on(database, tmp_path / "logs", workers=(), jobs=JOBS) as stack,
        worker(stack, database, TEN_MINUTES, AHEAD, tmp_path / "logs"),
        worker(stack, database, -TEN_MINUTES, BEHIND, tmp_path / "logs"),
        calling(stack.jobs) as caller,
    ):
        for jobs in await asyncio.gather(made(caller, AHEAD), made(caller, BEHIND)):
            late, failing, long = [await ended(caller, jobs[name]) for name in ("late", "failing", "long")]
            assert_ran_once(long)
            assert_backed_off(failing)
            assert JobState.JOB_STATE_EXPIRED == late.state
            assert JobState.JOB_STATE_QUEUED == (await caller.get(jobs["waiting"])).state
    await assert_invariants(database)


def assert_ran_once(job: Job) -> None:
    """Its call was longer than its lease, nobody took it over, and its times are in order."""
    assert JobState.JOB_STATE_SUCCEEDED == job.state
    (attempt,) = [attempt for attempt in job.attempts if attempt.HasField("send_time")]
    assert AttemptOutcome.ATTEMPT_OUTCOME_SUCCEEDED == attempt.outcome
    times = (attempt.claim_time, attempt.send_time, attempt.first_token_time, attempt.end_time)
    assert sorted(times, key=Timestamp.ToDatetime) == list(times)


def assert_backed_off(job: Job) -> None:
    """The second attempt came neither at once nor ten minutes later, and all times are now."""
    assert JobState.JOB_STATE_FAILED == job.state
    first, second = job.attempts
    pause = second.claim_time.ToDatetime() - first.end_time.ToDatetime()
    assert timedelta(0) <= pause < timedelta(seconds=20)
    for attempt in job.attempts:
        assert abs(attempt.end_time.ToDatetime(UTC) - datetime.now(UTC)) < timedelta(minutes=2)
