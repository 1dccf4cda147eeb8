"""A watched job: a real store and a real socket, and a worker's stream that does what a test tells it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import grpc

from hourglass.jobs.v1 import event_pb2
from hourglass.jobs.v1 import jobs_service_pb2 as pb
from jobs_store.endings import Finish
from jobs_store.events import Event, EventKind
from jobs_store.identifiers import sequence
from jobs_store.runs import Append, Claimed, ClaimRequest
from jobs_store.turns import Turn
from tests.jobs import TENANT, Jobs, jobs_server, of, pricing_server
from tests.postgres import TestDatabase
from tests.store import Store, acceptance_of, delta, fence_of, open_store, time_enough
from tests.worker_double import END, WorkerDouble, worker_double

LANE = "simulated/simulated-fast"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A job service, the store beneath it, and a worker."""

    jobs: Jobs
    store: Store
    worker: WorkerDouble
    worker_address: str

    async def claim(self) -> Claimed:
        """Claim the job that waits, as the worker double."""
        request = ClaimRequest(
            lanes=[LANE],
            slots=1,
            worker_id="double",
            worker_address=self.worker_address,
            lease=60.0,
            turn=Turn(),
            tenants=10,
        )
        (claimed,) = (await self.store.runs.claim(request, budget=time_enough())).runs
        await self.store.start(claimed)
        return claimed

    async def flush(self, run: Claimed, first: int, *texts: str) -> None:
        """Make deltas durable, numbered from `first`."""
        append = Append(
            tenant=run.tenant,
            job_id=run.job_id,
            token=run.token,
            epoch=run.epoch,
            attempt_number=run.attempt_number,
            first_event=first,
            events=[delta(text) for text in texts],
        )
        await self.store.runs.append([append], budget=time_enough())

    async def finish(self, run: Claimed, first: int) -> None:
        """Accept a result; its events are numbered from `first`."""
        accepted = acceptance_of(run, charge=Decimal(0))
        ending = Finish(
            fence=fence_of(run, first_event=first),
            state=accepted.state,
            cause=accepted.cause,
            charge=accepted.charge,
            events=accepted.events,
            attempt=accepted.attempt,
            result=accepted.result,
        )
        await self.store.runs.finish([ending], budget=time_enough())

    def watch(self, job_id: str, after: int = 0, **fields: Any) -> Any:
        """A stream of the job's events."""
        request = pb.WatchJobRequest(job_id=job_id, after_sequence=after, **fields)
        return self.jobs.jobs.WatchJob(request, metadata=of(TENANT))


@asynccontextmanager
async def watching(database: TestDatabase, **settings: Any) -> AsyncIterator[Setting]:
    """A setting over a database; `settings` are those of JobsSettings."""
    async with (
        pricing_server() as pricing,
        worker_double() as (worker, address),
        jobs_server(database, pricing=pricing, workers_target=address, **settings) as jobs,
        open_store(database) as store,
    ):
        await jobs.fund(TENANT, Decimal(10))
        await store.runs.register_lanes([LANE], budget=time_enough())
        yield Setting(jobs=jobs, store=store, worker=worker, worker_address=address)


def live_delta(run: Claimed, number: int, text: str) -> Event:
    return Event(
        sequence=sequence(run.epoch, number),
        kind=EventKind.TOKEN_DELTA,
        time=run.claim_time,
        attempt_number=run.attempt_number,
        text=text,
        attributes={"offset": 0, "token_count": 1},
    )


class LiveRun:
    """A run whose events go to its readers at once, and to the store when it is told to."""

    def __init__(self, setting: Setting, run: Claimed) -> None:
        self.run = run
        self.last = 3
        self._setting = setting
        self._unflushed: list[str] = []
        self._log: list[Event | object] = []
        setting.worker.given[str(run.job_id)] = self._log

    def say(self, text: str, *, kept: bool = True) -> None:
        """One more delta, live. `kept`: for those who come later, too."""
        self.last += 1
        event = live_delta(self.run, self.last, text)
        if kept:
            self._log.append(event)
        self._unflushed.append(text)
        for stream in self._setting.worker.streams:
            if not stream.closed:
                stream.items.put_nowait(event)

    async def flush(self) -> None:
        """Make durable what is not."""
        texts, first = tuple(self._unflushed), self.last - len(self._unflushed) + 1
        self._unflushed.clear()
        if texts:
            await self._setting.flush(self.run, first, *texts)

    async def finish(self) -> None:
        """Accept the result, and end every stream."""
        await self.flush()
        await self._setting.finish(self.run, self.last + 1)
        self._log.append(END)
        for stream in self._setting.worker.streams:
            stream.items.put_nowait(END)


async def read(stream: Any, count: int) -> list[event_pb2.JobEvent]:
    return [(await stream.read()).event for _ in range(count)]


async def rest(stream: Any) -> list[event_pb2.JobEvent]:
    events = []
    while (response := await stream.read()) is not grpc.aio.EOF:
        if response.HasField("event"):
            events.append(response.event)
    return events


def numbers(events: Sequence[event_pb2.JobEvent]) -> list[tuple[int, int]]:
    return [(event.sequence >> 32, event.sequence & 0xFFFFFFFF) for event in events]
