"""What every figure of streams stands on: jobs, JobService, a worker's streams, and watchers."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from bench.budget.children import Child, child
from bench.budget.figures import percentile
from jobs_store.identifiers import JobId, TenantId
from jobs_store.runs import Claimed, ClaimRequest
from jobs_store.turns import Turn
from tests.postgres import TestServer
from tests.store import LANE, Store, open_store, start_of, time_enough

TENANT: Final = TenantId("bench")
FUNDS: Final = Decimal(1_000_000)
SIZE: Final = 64
"""Characters of a delta."""
UNDERWAY: Final = 6_000
"""Messages that may be on their way: each of a hundred watchers is sixty behind at most."""
_STEP: Final = 0.02
_WARM_UP: Final = 1.0
_LEASE: Final = 3600.0
_BATCH: Final = 100
_WRITERS: Final = 8
_MOST_RUNNING: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What watchers saw of a spell. Latencies in seconds. refusals: before a stream came up at last."""

    messages: int
    seconds: float
    size: float
    latencies: Sequence[float]
    ended: int
    refusals: Mapping[str, int]

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.messages / self.seconds

    def latency(self, share: float) -> float:
        """Milliseconds."""
        return 1000 * percentile(self.latencies, share)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """What came in a spell. size: bytes of a message."""

    messages: int
    seconds: float
    size: float

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.messages / self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Everything, running."""

    store: Store
    plain: Child
    worker: Child
    service: Child
    watchers: Child

    @classmethod
    @asynccontextmanager
    async def running(cls, postgres: TestServer, logs: Path) -> AsyncIterator["Stage"]:
        """All processes come up, and go down at the end."""
        async with (
            postgres.database() as database,
            open_store(database, pool=8) as store,
            child("bench.stream.plain", logs=logs) as plain,
            child("bench.stream.worker", logs=logs) as worker,
            child("bench.stream.job_service", "--dsn", database.request, logs=logs) as service,
            child("bench.stream.watchers", logs=logs) as watchers,
        ):
            await store.tenant(TENANT, funds=FUNDS, max_running=_MOST_RUNNING)
            yield cls(store=store, plain=plain, worker=worker, service=service, watchers=watchers)

    async def idle_jobs(self, count: int) -> list[str]:
        """So many jobs that nobody runs."""
        return [str(job_id) for job_id in await self._create(count)]

    async def running_jobs(self, count: int) -> list[str]:
        """So many jobs that the worker runs, silent until they are told to stream."""
        await self._create(count)
        runs: list[Claimed] = []
        while len(runs) < count:
            claimed = await self._claim(count - len(runs))
            assert claimed, f"{count - len(runs)} jobs wait, and none is given to the worker"
            await self.store.runs.start([start_of(run) for run in claimed], budget=time_enough())
            runs += claimed
        told = [
            {"job_id": str(r.job_id), "tenant": r.tenant, "epoch": r.epoch, "last_sequence": r.last_sequence}
            for r in runs
        ]
        await self.worker.ask("take", runs=told)
        return [str(run.job_id) for run in runs]

    async def watched(
        self, jobs: Sequence[str], *, each: int, rate: float, seconds: float, warm_up: float = 1.0
    ) -> tuple[float, Seen]:
        """Events a second that were written, and what came of them."""
        attached = await self.watchers.ask("attach", within=90.0, each=each, jobs=jobs, **self._called)
        assert attached == each * len(jobs), f"{attached} of {each * len(jobs)} streams came up"
        length = seconds + 2 * warm_up
        streaming = self.worker.ask("stream", within=length + 30, rate=rate, size=SIZE, seconds=length)
        written, seen = await asyncio.gather(streaming, self._count(warm_up, seconds))
        await self.watchers.ask("leave")
        return written["events"] / written["seconds"], seen

    async def as_fast_as_it_goes(self, jobs: Sequence[str], *, each: int, seconds: float) -> Rate:
        """Events are written while no more than UNDERWAY are on their way to watchers."""
        attached = await self.watchers.ask("attach", within=90.0, each=each, jobs=jobs, **self._called)
        assert attached == each * len(jobs), f"{attached} of {each * len(jobs)} streams came up"
        await self.watchers.ask("count", seconds=0)
        writer = _Writer(self, each)
        await writer.keep_writing(_WARM_UP)
        rate = await writer.keep_writing(seconds)
        await self.watchers.ask("leave")
        return rate

    async def plainly(self, *, streams: int, size: int, seconds: float) -> Seen:
        """What as many plain streams of messages of that size bring."""
        target = self.plain.ready["target"]
        await self.watchers.ask("attach_plain", target=target, streams=streams, size=size, within=60.0)
        seen = await self._count(0.5, seconds)
        await self.watchers.ask("leave")
        return seen

    @property
    def _called(self) -> dict[str, Any]:
        return {"target": self.service.ready["target"], "tenant": TENANT}

    async def attach_idle(self, jobs: Sequence[str]) -> int:
        """One watch of each job."""
        return int(await self.watchers.ask("attach", within=90.0, each=1, jobs=jobs, **self._called))

    async def _create(self, count: int) -> list[JobId]:
        writers = asyncio.Semaphore(_WRITERS)

        async def create() -> JobId:
            async with writers:
                return await self.store.create(TENANT)

        return await asyncio.gather(*(create() for _ in range(count)))

    async def _count(self, warm_up: float, seconds: float) -> Seen:
        await self.watchers.ask("count", seconds=warm_up)
        return Seen(**await self.watchers.ask("count", within=seconds + 30, seconds=seconds))

    async def _claim(self, slots: int) -> Sequence[Claimed]:
        request = ClaimRequest(
            lanes=[LANE],
            slots=min(slots, _BATCH),
            worker_id="bench",
            worker_address=str(self.worker.ready["target"]),
            lease=_LEASE,
            turn=Turn(),
            tenants=10,
        )
        return (await self.store.runs.claim(request, budget=time_enough())).runs


class _Writer:
    """Has the worker write as much as the watchers take."""

    def __init__(self, stage: Stage, each: int) -> None:
        self._stage = stage
        self._each = each
        self._written = 0

    async def keep_writing(self, seconds: float) -> Rate:
        """For so long; what came meanwhile."""
        loop = asyncio.get_running_loop()
        started, (first, first_bytes) = loop.time(), await self._received()
        received, read = first, first_bytes
        while loop.time() - started < seconds:
            room = (UNDERWAY - (self._written - received)) // self._each
            if room > 0:
                await self._stage.worker.ask("write", events=room, size=SIZE)
                self._written += room * self._each
            await asyncio.sleep(_STEP)
            received, read = await self._received()
        messages = received - first
        return Rate(
            messages=messages, seconds=loop.time() - started, size=(read - first_bytes) / max(1, messages)
        )

    async def _received(self) -> tuple[int, int]:
        messages, read = await self._stage.watchers.ask("received")
        return int(messages), int(read)
