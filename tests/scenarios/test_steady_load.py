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

DURATION = 12.0
RATE = 15.0
BUDGET = 2.0
BASELINE_WITHIN = 2.0
SAMPLE = 0.2
MEGABYTE = 1024 * 1024
GROWTH = 8 * MEGABYTE
"""What may come on top of the memory of the first half: samples, answers and the log of this test itself."""
PRODUCTION = "{}"
STALL = BUDGET / 20
"""Half of the reserve. When this process gets no processor for so long, nobody in it can answer in time: a
call that such a stall fell into proves nothing and is left out, as long as those are few."""
TICK = 0.01

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


class Stalls:
    """When this process stood still."""

    def __init__(self) -> None:
        self._found: list[tuple[float, float]] = []

    async def watch(self) -> None:
        """Looks at the clock all the time."""
        last = time.monotonic()
        while True:
            await asyncio.sleep(TICK)
            now = time.monotonic()
            if now - last > TICK + STALL:
                self._found.append((last, now))
            last = now

    def any_in(self, start: float, end: float) -> bool:
        """Whether one fell into this time."""
        return any(first < end and start < last for first, last in self._found)


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How a call ended, and when it was made."""

    ending: str
    start: float
    end: float

    @property
    def good(self) -> bool:
        """We answered, in time."""
        return not self.ending.startswith("core") and self.end - self.start < BUDGET


@dataclass(slots=True, kw_only=True)
class Load:
    """Callers at a steady rate, how their calls ended, and what was in use meanwhile."""

    jobs: Jobs
    call: Call
    ends: list[End] = field(default_factory=list)
    stalls: Stalls = field(default_factory=Stalls)
    samples: list[Sample] = field(default_factory=list)

    @property
    def endings(self) -> Counter[str]:
        return Counter(end.ending for end in self.ends)

    async def run(self, seconds: float, *, sampled: bool) -> None:
        """Every call is started in its time, whatever became of those before."""
        started = time.monotonic()
        calls: list[asyncio.Task[None]] = []
        async with asyncio.TaskGroup() as callers:
            watching = callers.create_task(self.stalls.watch())
            sampling = callers.create_task(self._sample()) if sampled else watching
            for number in range(int(seconds * RATE)):
                await asyncio.sleep(max(0.0, started + number / RATE - time.monotonic()))
                calls.append(callers.create_task(self._one(number)))
            sampling.cancel()
            await asyncio.wait(calls)
            watching.cancel()

    async def _one(self, number: int) -> None:
        start, ending = time.monotonic(), "OK"
        try:
            await self.call(self.jobs, number)
        except grpc.aio.AioRpcError as error:
            failed = failure_of(error)
            ending = failed.reason or f"core's own {failed.code.name}"
        self.ends.append(End(ending=ending, start=start, end=time.monotonic()))

    async def _sample(self) -> None:
        while True:
            self.samples.append(Sample.of(self.jobs))
            await asyncio.sleep(SAMPLE)

    def assert_everybody_was_told(self) -> None:
        """99.9 % of the callers got our status, with its reason, before their deadline."""
        counted = [end for end in self.ends if not self.stalls.any_in(end.start, end.end)]
        assert len(counted) >= 0.5 * len(self.ends), "this machine is too busy for figures"
        assert sum(end.good for end in counted) >= 0.999 * len(counted), self.endings

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
