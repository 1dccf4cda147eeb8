"""Callers that leave in the middle of their calls."""

import asyncio
from dataclasses import dataclass, field
from random import Random
from typing import Any

import grpc
import pytest
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from hourglass.jobs.v1 import jobs_service_pb2 as pb
from servicekit.endings import Ending
from tests.integration.servicekit.metrics import points
from tests.jobs import PATIENT, TENANT, of
from tests.postgres import TestDatabase
from tests.scenarios.stage import Stage, staged
from tests.waiting import eventually

AT_ONCE = 32
LEAVES_WITHIN = 0.15
HUNG = "simulated-slow"
TIMEOUTS = frozenset({Ending.BUDGET_EXHAUSTED, Ending.CALLER_DEADLINE, Ending.UPSTREAM_TIMEOUT})


@dataclass(slots=True)
class Callers:
    """Callers of all kinds, and how their calls ended as they saw it."""

    stage: Stage
    random: Random
    left: int = 0
    timed_out: int = 0
    answered: list[str] = field(default_factory=list)

    async def call(self, number: int) -> None:
        """Every second caller leaves at a random moment; every tenth of the others asks for what hangs."""
        if number % 2:
            await self._leave(self._create(number))
        elif number % 20 == 0:
            await self._stay(self._create(number, model=HUNG, timeout=0.3))
        elif number % 4 == 0:
            await self._stay(self._create(number))
        else:
            request = pb.ListJobsRequest(page_size=5)
            await self._stay(self.stage.jobs.jobs.ListJobs(request, timeout=20, metadata=of(TENANT)))

    def _create(self, number: int, *, timeout: float = 20.0, **fields: Any) -> Any:
        return self.stage.create(f"k{number}", timeout=timeout, **fields)

    async def _leave(self, call: Any) -> None:
        await asyncio.sleep(self.random.uniform(0, LEAVES_WITHIN))
        if call.cancel():
            self.left += 1

    async def _stay(self, call: Any) -> None:
        try:
            answer = await call
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
                raise
            self.timed_out += 1
        else:
            if isinstance(answer, pb.CreateJobResponse):
                self.answered.append(answer.job.job_id)


def endings(measured: InMemoryMetricReader) -> dict[Ending, int]:
    """How many calls of the job service ended in each way."""
    found: dict[Ending, int] = dict.fromkeys(Ending, 0)
    for point in points(measured, "rpc.server.call.duration"):
        if "JobService" in point.attributes["rpc.method"]:
            found[Ending(point.attributes["hourglass.ending"])] += point.count
    return found


async def play(stage: Stage, measured: InMemoryMetricReader, *, calls: int) -> None:
    """Everybody calls; afterwards nothing is left of those who left."""
    asyncio.get_running_loop().set_debug(False)  # it costs more than the calls
    callers = Callers(stage, Random(3))
    stage.pricing.hung.add(HUNG)
    await stage.create("warm", timeout=20)
    tasks = len(asyncio.all_tasks())
    numbers = iter(range(calls))

    async def take_turns() -> None:
        for number in numbers:
            await callers.call(number)

    await asyncio.gather(*(take_turns() for _ in range(AT_ONCE)))

    await eventually(stage.pool_is_whole, within=3)
    await eventually(lambda: len(asyncio.all_tasks()) <= tasks, within=3)
    await eventually(lambda: _no_session_is_active(stage), within=3)
    await _assert_counted_apart(callers, measured)
    await _assert_every_job_is_whole(callers)


async def _no_session_is_active(stage: Stage) -> bool:
    return await stage.active() == 0


async def _assert_counted_apart(callers: Callers, measured: InMemoryMetricReader) -> None:
    counted = endings(measured)
    timed_out = sum(counted[ending] for ending in TIMEOUTS)
    assert callers.left // 4 < counted[Ending.CALLER_CANCELLED] <= callers.left
    assert 0 < timed_out <= callers.timed_out
    assert 0 == counted[Ending.SPURIOUS_CANCEL] + counted[Ending.ERROR]


async def _assert_every_job_is_whole(callers: Callers) -> None:
    await callers.stage.assert_money_agrees()
    rows = await callers.stage.jobs.sql("SELECT id::text FROM hourglass.job_facts")
    assert set(callers.answered) <= {row["id"] for row in rows}


@pytest.mark.faults
@pytest.mark.scenario("B3")
async def test_a_thousand_cancelled_calls_leave_nothing_behind(
    measured: InMemoryMetricReader, database: TestDatabase
) -> None:
    async with staged(database, admission=False, pool_size=4, policies=PATIENT) as stage:
        await play(stage, measured, calls=2_000)


@pytest.mark.faults
@pytest.mark.scenario("B3")
@pytest.mark.timeout(240)
async def test_five_thousand_cancelled_calls_leave_nothing_behind(
    measured: InMemoryMetricReader, database: TestDatabase
) -> None:
    async with staged(database, admission=False, pool_size=4, policies=PATIENT) as stage:
        await play(stage, measured, calls=10_000)
