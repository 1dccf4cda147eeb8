"""A dependency hangs for a while under a steady load of callers with two seconds each."""

import asyncio
import gc
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import grpc
import psutil
import pytest

from hourglass.jobs.v1 import jobs_service_pb2 as pb
from tests.chaos_proxy import ChaosProxy
from tests.jobs import TENANT, Jobs, failure_of, message, of, spec
from tests.postgres import TestDatabase
from tests.scenarios.runs import running
from tests.scenarios.stage import staged
from tests.waiting import eventually

pytestmark = [pytest.mark.faults, pytest.mark.scenario("B1"), pytest.mark.timeout(120)]

DURATION = 20.0
RATE = 15.0
BUDGET = 2.0
BASELINE_WITHIN = 2.0
SAMPLE = 0.2
MEGABYTE = 1024 * 1024
GROWTH = 8 * MEGABYTE
"""What may come on top of the memory of the first half: samples, answers and the log of this test itself."""
PRODUCTION = "{}"

Call = Callable[[Jobs, int], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What is in use at one moment."""

    in_flight: int
    pool: int
    tasks: int
    memory: int

    @classmethod
    def of(cls, jobs: Jobs) -> "Sample":
        database = jobs.app.databases.request
        return cls(
            in_flight=jobs.app.server._terms.drain.in_flight,
            pool=database.in_use + database.waiting,
            tasks=sum(not _of_a_proxy(task) for task in asyncio.all_tasks()),
            memory=psutil.Process().memory_info().rss,
        )


def _of_a_proxy(task: "asyncio.Task[Any]") -> bool:
    """A frozen proxy holds what it was sent, also of connections that have ended."""
    return "ChaosProxy" in repr(task.get_coro())


@dataclass(slots=True, kw_only=True)
class Load:
    """Callers at a steady rate, how their calls ended, and what was in use meanwhile."""

    jobs: Jobs
    call: Call
    endings: Counter[str] = field(default_factory=Counter)
    late: int = 0
    samples: list[Sample] = field(default_factory=list)

    async def run(self, seconds: float, *, sampled: bool) -> None:
        """Every call is started in its time, whatever became of those before."""
        started = time.monotonic()
        async with asyncio.TaskGroup() as callers:
            sampling = callers.create_task(self._sample()) if sampled else None
            for number in range(int(seconds * RATE)):
                await asyncio.sleep(max(0.0, started + number / RATE - time.monotonic()))
                callers.create_task(self._one(number))
            if sampling is not None:
                sampling.cancel()

    async def _one(self, number: int) -> None:
        started = time.monotonic()
        try:
            await self.call(self.jobs, number)
        except grpc.aio.AioRpcError as error:
            failed = failure_of(error)
            self.endings[failed.reason or f"core's own {failed.code.name}"] += 1
        else:
            self.endings["OK"] += 1
        self.late += time.monotonic() - started > BUDGET

    async def _sample(self) -> None:
        while True:
            self.samples.append(Sample.of(self.jobs))
            await asyncio.sleep(SAMPLE)

    def assert_everybody_was_told(self) -> None:
        """99.9 % of the callers got our status, with its reason, before their deadline."""
        told = sum(count for ending, count in self.endings.items() if not ending.startswith("core"))
        assert told >= 0.999 * self.endings.total(), self.endings
        assert self.late <= 0.001 * self.endings.total(), self.late

    def assert_it_levels_off(self) -> None:
        """The second half needs no more than the first."""
        half = len(self.samples) // 2
        first, second = self.samples[:half], self.samples[half:]
        for name in ("in_flight", "pool", "tasks"):
            peak, later = (max(getattr(one, name) for one in part) for part in (first, second))
            assert later <= 1.25 * peak + 8, (name, peak, later)
        peak, later = (max(one.memory for one in part) for part in (first, second))
        assert later - peak < GROWTH, (peak, later)


async def play(jobs: Jobs, call: Call, proxy: ChaosProxy) -> Load:
    """A good second, a long hang, and the baseline again within two seconds."""
    asyncio.get_running_loop().set_debug(False)  # it costs more than the load
    warm = Load(jobs=jobs, call=lambda running, number: call(running, -1 - number))
    await warm.run(1.0, sampled=False)
    await eventually(lambda: is_idle(Sample.of(jobs)))
    gc.collect()
    before = Sample.of(jobs)

    load = Load(jobs=jobs, call=call)
    proxy.freeze()
    await load.run(DURATION, sampled=True)
    proxy.flow()

    await eventually(lambda: is_baseline(Sample.of(jobs), before), within=BASELINE_WITHIN)
    load.assert_everybody_was_told()
    load.assert_it_levels_off()
    after = Load(jobs=jobs, call=lambda running, number: call(running, 1_000_000 + number))
    await after.run(1.0, sampled=False)
    assert {"OK"} == set(after.endings)
    return load


def is_idle(now: Sample) -> bool:
    """Nobody is served."""
    return (now.in_flight, now.pool) == (0, 0)


def is_baseline(now: Sample, before: Sample) -> bool:
    """Nothing of the load is left."""
    return is_idle(now) and now.tasks <= before.tasks + 2


def create(jobs: Jobs, number: int) -> Any:
    request = pb.CreateJobRequest(idempotency_key=f"k{number}", spec=spec())
    return jobs.jobs.CreateJob(request, timeout=BUDGET, metadata=of(TENANT))


async def generate(jobs: Jobs, _number: int) -> None:
    request = pb.GenerateRequest(
        model="simulated-fast:tokens=2", messages=[message()], max_output_token_count=2
    )
    stream = jobs.jobs.Generate(request, timeout=BUDGET, metadata=of(TENANT))
    async for _ in stream:
        pass


async def test_while_pricing_hangs_everybody_is_told_in_time_and_nothing_piles_up(
    database: TestDatabase,
) -> None:
    async with staged(database, policies=PRODUCTION) as stage:
        load = await play(stage.jobs, create, stage.to_pricing)
    assert load.endings["UPSTREAM_TIMEOUT"] > 0


async def test_while_postgres_hangs_everybody_is_told_in_time_and_nothing_piles_up(
    database: TestDatabase,
) -> None:
    async with staged(database, policies=PRODUCTION) as stage:
        load = await play(stage.jobs, create, stage.to_postgres)
    assert load.endings["DATABASE_TIMEOUT"] > 0


async def test_while_the_provider_hangs_everybody_is_told_in_time_and_nothing_piles_up(
    database: TestDatabase, simulated: str
) -> None:
    async with running(database, simulated) as runs:
        load = await play(runs.jobs, generate, runs.to_provider)
    assert load.endings["BUDGET_EXHAUSTED"] > 0
