"""The wall clock of the job process steps by ten minutes in the middle of calls."""

import asyncio
import os
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from budget.core import Budget
from hourglass.jobs.v1 import jobs_service_pb2 as pb
from hourglass.jobs.v1.jobs_service_pb2_grpc import JobServiceStub
from launcher import components
from launcher.processes import Child
from launcher.readiness import until_ready
from launcher.seed import DEMO_TENANT, seed_tenant
from servicekit.wire_time import seconds_of
from tests import stepped_clock
from tests.chaos_proxy import ChaosProxy
from tests.jobs import TENANT, of, pricing_server, spec
from tests.postgres import TestDatabase
from tests.scenarios.stage import Told, told
from tests.stacks import connected
from tests.stepped_clock import SteppedClock

TEN_MINUTES = 600
START_LIMIT = 40.0
STOP_LIMIT = 20.0
POLICIES = '{"postgres": {"limit": 5}, "pricing": {"limit": 0.7}}'

without_library = pytest.mark.skipif(
    stepped_clock.LIBRARY is None, reason=f"no libfaketime: {stepped_clock.HOW_TO_INSTALL}"
)
EVERY_CLOCK = [
    pytest.param(SteppedClock.of_libfaketime, marks=without_library, id="every clock"),
    pytest.param(SteppedClock.of_python, id="time.time"),
]


@asynccontextmanager
async def job_process(
    database: TestDatabase, pricing: str, clock: SteppedClock, logs: Path
) -> AsyncIterator[str]:
    """A JobService in a process with such a clock; its address."""
    command = components.jobs_service(
        "jobs",
        {"POLICIES": POLICIES},
        database=database.request,
        reaper_database=database.worker,
        pricing=pricing,
    )
    command = replace(command, environment={**command.environment, **clock.environment})
    child = await Child.start(command, logs=logs, budget=Budget.for_work(START_LIMIT))
    try:
        await until_ready(child.address, budget=Budget.for_work(START_LIMIT))
        await seed_tenant(database.request, DEMO_TENANT, budget=Budget.for_work(START_LIMIT))
        yield child.address
    finally:
        await child.stop(budget=Budget.for_work(STOP_LIMIT))


async def stepped_while_pricing_hangs(
    stub: Any, key: str, proxy: ChaosProxy, step: Callable[[], None]
) -> tuple[float, Told]:
    """A create during which pricing hangs and the clock steps: how long it took, and what it said."""
    proxy.freeze()
    started = time.monotonic()
    request = pb.CreateJobRequest(idempotency_key=key, spec=spec())
    call = asyncio.create_task(told(stub.CreateJob(request, timeout=2.0, metadata=of(TENANT))))
    await asyncio.wait({call}, timeout=0.2)
    step()
    answer = await call
    proxy.flow()
    return time.monotonic() - started, answer


@pytest.mark.faults
@pytest.mark.scenario("B10")
@pytest.mark.parametrize("clock_of", EVERY_CLOCK)
async def test_no_budget_changes_when_the_wall_clock_steps(
    database: TestDatabase, tmp_path: Path, clock_of: Callable[[Path], SteppedClock]
) -> None:
    clock = clock_of(tmp_path)
    async with (
        pricing_server() as address,
        ChaosProxy.to_tcp("127.0.0.1", int(address.rpartition(":")[2])) as proxy,
        job_process(database, f"127.0.0.1:{proxy.port}", clock, tmp_path) as target,
        connected(target) as channel,
    ):
        stub: Any = JobServiceStub(channel)
        job_id = (await stub.CreateJob(_create("k0"), timeout=5, metadata=of(TENANT))).job.job_id
        for offset in (TEN_MINUTES, -TEN_MINUTES):
            took, answer = await stepped_while_pricing_hangs(
                stub, f"hung {offset}", proxy, partial(clock.step, offset)
            )
            assert "UPSTREAM_TIMEOUT" == answer.reason
            assert 0.68 <= took < 1.6, "pricing's share is 0.7 s of 2"
            if not clock.everywhere:
                clock.step(0)
            good = await told(stub.CreateJob(_create(f"good {offset}"), timeout=None, metadata=of(TENANT)))
            assert 2.0 == seconds_of(good.binary.initial_duration)
            assert good.failure is None

        await assert_a_wait_keeps_its_deadline(stub, job_id, clock)


async def assert_a_wait_keeps_its_deadline(stub: Any, job_id: str, clock: SteppedClock) -> None:
    """A call that waits for the end of its budget waits as long as before."""
    for offset in (TEN_MINUTES, -TEN_MINUTES):
        started = time.monotonic()
        request = pb.WaitJobRequest(job_id=job_id)
        call = asyncio.create_task(told(stub.WaitJob(request, timeout=1.5, metadata=of(TENANT))))
        await asyncio.wait({call}, timeout=0.3)
        clock.step(offset)
        answer = await call
        if not clock.everywhere:
            clock.step(0)
        assert answer.failure is None
        assert 1.0 < time.monotonic() - started < 1.5


def _create(key: str) -> pb.CreateJobRequest:
    return pb.CreateJobRequest(idempotency_key=key, spec=spec())


@pytest.mark.scenario("B10")
@pytest.mark.parametrize("clock_of", EVERY_CLOCK)
async def test_the_clock_of_such_a_process_does_step(
    tmp_path: Path, clock_of: Callable[[Path], SteppedClock]
) -> None:
    """Else the test above would hold for a clock that stands still."""
    clock = clock_of(tmp_path)
    wall, monotonic = [], []
    for offset in (0, TEN_MINUTES):
        clock.step(offset)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", "import time; print(time.time(), time.monotonic())"),
            env={**os.environ, **clock.environment},
            stdout=PIPE,
        )
        output, _ = await process.communicate()
        told_wall, told_monotonic = map(float, output.split())
        wall.append(told_wall)
        monotonic.append(told_monotonic)
    assert wall[1] - wall[0] == pytest.approx(TEN_MINUTES, abs=60)
    assert monotonic[1] - monotonic[0] < 60
