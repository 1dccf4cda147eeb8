"""WatchJob: one job's events from a cursor on, from the store and, while a worker runs it, from that worker.

The store is the truth and is read first; a worker's stream only brings forward what the store will have.
Whenever that stream ends, skips something, or the job has moved on, the store is read again. Nothing is held
while an event is on its way to the caller: no connection, no transaction.
"""

from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from dataclasses import dataclass
from typing import TypeVar

from budget.core import Budget, Clock
from budget.errors import (
    BudgetExhausted,
    BudgetTooLow,
    DatabaseConflict,
    DatabaseTimeout,
    DatabaseUnavailable,
)
from jobs_service.domain.splice import Place, check_cursor, is_over, is_wanted, place_of
from jobs_service.service.pauses import Pace, Pauses
from jobs_service.service.ports import EventReader, FeedEnded, ProgressSource
from jobs_store.events import Event, EventKind
from jobs_store.identifiers import JobId, Sequence, TenantId
from jobs_store.reading import Position
from jobs_store.signals import job_changed
from jobs_store.subscriptions import Subscriptions, Wakeup
from servicekit.errors import Resume

_OUTAGES = (DatabaseUnavailable, DatabaseTimeout, DatabaseConflict)

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchRequest:
    """Which job, after which sequence, which kinds (none: all)."""

    tenant: TenantId
    job_id: JobId
    after: Sequence
    kinds: frozenset[EventKind]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """Nothing happened for a while; the stream stands at this sequence."""

    sequence: Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchPace:
    """Durations in seconds.

    pause: between two reads of the store while no worker has the job.
    heartbeat: the longest silence.
    recheck: how often a job that a worker streams is looked up in the store.
    patience: how long the store may be away before the stream ends with its error.
    page: events read from the store at once.
    """

    pause: Pace
    heartbeat: float = 15.0
    recheck: float = 5.0
    patience: float = 30.0
    page: int = 500


class JobWatcher:
    """Streams of jobs' events."""

    def __init__(
        self,
        reader: EventReader,
        progress: ProgressSource,
        subscriptions: Subscriptions,
        *,
        pace: WatchPace,
        clock: Clock,
    ) -> None:
        self._reader = reader
        self._progress = progress
        self._subscriptions = subscriptions
        self._pace = pace
        self._clock = clock

    async def watch(
        self, request: WatchRequest, *, budget: Budget
    ) -> AsyncGenerator[Event | Heartbeat, None]:
        """Every wanted event after the cursor, once and in order; ends after the terminal one.

        Raises JobNotFound, CursorOutOfRange; Resume when the budget ends; an error of the database when it is
        away at the start or for too long.
        """
        with self._subscriptions.subscribe(job_changed(request.tenant, request.job_id)) as wakeup:
            reads = _Reads(self._reader, request, pace=self._pace, clock=self._clock, budget=budget)
            stream = _Stream(reads, self._progress, pace=self._pace, clock=self._clock, wakeup=wakeup)
            try:
                await stream.begin()
                async with aclosing(stream.steps()) as steps:
                    async for item in _with_heartbeats(steps, stream, self._pace.heartbeat, self._clock):
                        yield item
            except (BudgetExhausted, BudgetTooLow) as error:
                raise Resume from error


async def _with_heartbeats(
    steps: AsyncGenerator[Event | None, None], stream: "_Stream", interval: float, clock: Clock
) -> AsyncGenerator[Event | Heartbeat, None]:
    last = clock()
    async for event in steps:
        if event is not None and is_wanted(event, stream.request.kinds):
            yield event
            last = clock()
        elif clock() - last >= interval:
            yield Heartbeat(sequence=stream.cursor)
            last = clock()


class _Stream:
    """One reader of one job. `cursor`: the last sequence that it has, wanted or not."""

    def __init__(
        self, reads: "_Reads", progress: ProgressSource, *, pace: WatchPace, clock: Clock, wakeup: Wakeup
    ) -> None:
        self.request = reads.request
        self.cursor = reads.request.after
        self._reads = reads
        self._progress = progress
        self._pace = pace
        self._clock = clock
        self._wakeup = wakeup
        self._budget = reads.budget
        self._pauses = Pauses(pace.pause)

    async def begin(self) -> None:
        """Refuses a cursor that nothing can follow."""
        check_cursor(self.request.after, await self._reads.first_position())

    async def steps(self) -> AsyncGenerator[Event | None, None]:
        """Every event after the cursor; None now and then while nothing happens."""
        while True:
            page = await self._reads.page(after=self.cursor)
            for event in page or ():
                self._advance(event)
                yield event
            if page is not None and len(page) == self._pace.page:
                continue
            position = None if page is None else await self._reads.position()
            if position is None or not (position.last_sequence > self.cursor or position.state.terminal):
                async for live in self._until_something_happens(position):
                    yield live
            elif is_over(self.cursor, position):
                return

    async def _until_something_happens(self, position: Position | None) -> AsyncGenerator[Event | None, None]:
        """Live events of the worker that runs the job, then a pause unless there were any."""
        before = self.cursor
        if position is not None and position.worker_address is not None:
            async with aclosing(self._live(position, position.worker_address)) as events:
                async for event in events:
                    yield event
        if self.cursor == before:
            await self._wakeup.wait(self._budget.child(self._pauses.take()))
            yield None

    async def _live(self, position: Position, address: str) -> AsyncGenerator[Event | None, None]:
        tenant, job_id = self.request.tenant, self.request.job_id
        checked = self._clock()
        quiet = min(self._pace.recheck, self._pace.heartbeat)
        try:
            async with self._progress.follow(
                address, tenant, job_id, after=self.cursor, budget=self._budget
            ) as feed:
                while True:
                    event = await feed.next(quiet)
                    place = None if event is None else place_of(event, self.cursor)
                    if place is Place.BEYOND_A_GAP:
                        return
                    if event is not None and place is Place.NEXT:
                        self._advance(event)
                        yield event
                    elif event is None:
                        yield None
                    if self._clock() - checked >= self._pace.recheck:
                        if await self._has_moved(position):
                            return
                        checked = self._clock()
        except FeedEnded:
            return

    async def _has_moved(self, position: Position) -> bool:
        """Whether the run that is followed is not the job's present one any more."""
        now = await self._reads.position()
        return now is not None and (now.epoch, now.worker_address) != (
            position.epoch,
            position.worker_address,
        )

    def _advance(self, event: Event) -> None:
        self.cursor = event.sequence
        self._pauses.reset()


class _Reads:
    """What one reader reads of the store, and for how long the store has been away."""

    def __init__(
        self, reader: EventReader, request: WatchRequest, *, pace: WatchPace, clock: Clock, budget: Budget
    ) -> None:
        self.request = request
        self.budget = budget
        self._reader = reader
        self._pace = pace
        self._clock = clock
        self._last_success = clock()

    async def first_position(self) -> Position:
        """Where the job stands; every error is the caller's to know."""
        return await self._reader.position(self.request.tenant, self.request.job_id, budget=self.budget)

    async def position(self) -> Position | None:
        """Where the job stands; None while the store is away."""
        return await self._unless_away(self.first_position())

    async def page(self, *, after: Sequence) -> list[Event] | None:
        """The next durable events; None while the store is away."""
        tenant, job_id = self.request.tenant, self.request.job_id
        return await self._unless_away(
            self._reader.events(tenant, job_id, after=after, limit=self._pace.page, budget=self.budget)
        )

    async def _unless_away(self, read: Awaitable[Found]) -> Found | None:
        """An outage is borne for as long as the patience lasts; then its error leaves."""
        try:
            found = await read
        except _OUTAGES:
            if self._clock() - self._last_success > self._pace.patience:
                raise
            return None
        self._last_success = self._clock()
        return found
