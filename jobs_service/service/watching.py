"""WatchJob: one job's events from a cursor on, from the store and, while a worker runs it, from that worker.

The store is the truth and is read first; a worker's stream only brings forward what the store will have.
Whenever that stream ends, skips something, or the job has moved on, the store is read again. Nothing is held
while an event is on its way to the caller: no connection, no transaction.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeVar

from budget.core import Budget, Clock
from budget.errors import (
    BudgetExhausted,
    BudgetTooLow,
    DatabaseConflict,
    DatabaseTimeout,
    DatabaseUnavailable,
)
from jobs_service.domain.splice import Place, check_cursor, check_kept, is_over, is_wanted, place_of
from jobs_service.service.pauses import Pace, Pauses
from jobs_service.service.ports import EventReader, Feed, FeedEnded, Positions, ProgressSource
from jobs_store.events import Event, EventKind
from jobs_store.identifiers import JobId, Sequence, TenantId
from jobs_store.reading import Position
from jobs_store.signals import job_changed
from jobs_store.subscriptions import Subscriptions, Wakeup
from servicekit.errors import Resume

GAP: Final = "GAP"
"""The worker's stream skipped something."""

_OUTAGES = (DatabaseUnavailable, DatabaseTimeout, DatabaseConflict)

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchRequest:
    """Which job, after which sequence, which kinds (none: all). `replay_only`: what is durable, no more."""

    tenant: TenantId
    job_id: JobId
    after: Sequence
    kinds: frozenset[EventKind]
    replay_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """Nothing happened for a while; the stream stands at this sequence."""

    sequence: Sequence


Send = Callable[[Event | Heartbeat], Awaitable[None]]
"""Takes the next item to the caller; slow when the caller is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchPace:
    """Durations in seconds.

    pause: between two reads of the store while no worker streams the job; once it has risen to the longest,
        the process's timer looks for all who wait.
    heartbeat: the longest silence.
    recheck: how often a job that a worker streams is compared with what the timer read.
    patience: how long the store may be away before the stream ends with its error.
    page: events read from the store at once.
    """

    pause: Pace
    heartbeat: float = 15.0
    recheck: float = 1.0
    patience: float = 30.0
    page: int = 500


class JobWatcher:
    """Streams of jobs' events."""

    def __init__(
        self,
        reader: EventReader,
        progress: ProgressSource,
        subscriptions: Subscriptions,
        positions: Positions,
        *,
        pace: WatchPace,
        clock: Clock,
    ) -> None:
        self._reader = reader
        self._progress = progress
        self._subscriptions = subscriptions
        self._positions = positions
        self._pace = pace
        self._clock = clock

    async def watch(self, request: WatchRequest, *, budget: Budget, send: Send) -> None:
        """Sends every wanted event after the cursor, once and in order; returns after the terminal one, or
        after what is durable when only that was asked for.

        Raises JobNotFound, CursorOutOfRange; Resume when the budget ends; an error of the database when it is
        away at the start or for too long; whatever `send` raises.
        """
        with self._subscriptions.subscribe(job_changed(request.tenant, request.job_id)) as wakeup:
            reads = _Reads(self._reader, request, pace=self._pace, clock=self._clock, budget=budget)
            outlet = _Outlet(send, request, interval=self._pace.heartbeat, clock=self._clock)
            stream = _Stream(
                reads,
                self._progress,
                self._positions,
                outlet,
                pace=self._pace,
                clock=self._clock,
                wakeup=wakeup,
            )
            try:
                await stream.run()
            except (BudgetExhausted, BudgetTooLow) as error:
                raise Resume from error


class _Outlet:
    """What goes to the caller: wanted events, and a sign of life when there were none for a while.

    cursor: the last sequence that the caller has, wanted or not.
    """

    def __init__(self, send: Send, request: WatchRequest, *, interval: float, clock: Clock) -> None:
        self.cursor = request.after
        self._send = send
        self._kinds = request.kinds
        self._interval = interval
        self._clock = clock
        self._last = clock()

    async def events(self, events: Iterable[Event]) -> None:
        """Sends those that are wanted. One frame for as many as there are: a busy stream lives here."""
        for event in events:
            if not self._kinds or is_wanted(event, self._kinds):
                await self._send(event)
                self.cursor = event.sequence
                self._last = self._clock()
            else:
                self.cursor = event.sequence
                await self.nothing()

    async def nothing(self) -> None:
        """Nothing to send; sends a heartbeat when that has lasted."""
        if self._clock() - self._last >= self._interval:
            await self._send(Heartbeat(sequence=self.cursor))
            self._last = self._clock()


class _Stream:
    """One reader of one job."""

    def __init__(
        self,
        reads: "_Reads",
        progress: ProgressSource,
        positions: Positions,
        outlet: _Outlet,
        *,
        pace: WatchPace,
        clock: Clock,
        wakeup: Wakeup,
    ) -> None:
        self._request = reads.request
        self._reads = reads
        self._progress = progress
        self._positions = positions
        self._outlet = outlet
        self._pace = pace
        self._clock = clock
        self._wakeup = wakeup
        self._budget = reads.budget
        self._pauses = Pauses(pace.pause)

    async def run(self) -> None:
        """Until the job's end was sent."""
        check_cursor(self._cursor, await self._reads.first_position())
        while True:
            page = await self._reads.page(after=self._cursor)
            if page:
                await self._outlet.events(page)
                self._pauses.reset()
            if page is not None and len(page) == self._pace.page:
                continue
            position = None if page is None else await self._reads.position()
            if position is not None:
                check_kept(self._cursor, position)
                if self._has_all(position):
                    return
            if position is None or not self._is_behind(position):
                await self._until_something_happens(position)

    def _has_all(self, position: Position) -> bool:
        """Whether nothing follows that the caller wants."""
        replayed = self._request.replay_only and not self._is_behind(position)
        return replayed or is_over(self._cursor, position)

    def _is_behind(self, position: Position) -> bool:
        return position.last_sequence > self._cursor

    async def _until_something_happens(self, position: Position | None) -> None:
        """Live events of the worker that runs the job; without any, a pause."""
        before = self._cursor
        if position is not None and position.worker_address is not None:
            await self._follow(position.worker_address)
        if self._cursor == before:
            await self._rest(position)
        else:
            self._pauses.reset()

    async def _rest(self, position: Position | None) -> None:
        """Until the store is worth a look again. While the timer ticks and no worker has the job, only a
        wake-up makes it so."""
        settled, until = self._pauses.settled, self._clock() + self._pauses.take()
        idle = position is not None and position.worker_address is None
        while True:
            timed = settled and idle and self._positions.ticking
            left = self._pace.heartbeat if timed else until - self._clock()
            woken = await self._wakeup.wait(self._budget.child(min(left, self._pace.heartbeat)))
            await self._outlet.nothing()
            if woken or self._budget.spendable() <= 0 or not (timed or self._clock() < until):
                return

    async def _follow(self, address: str) -> None:
        """A worker's stream, for as long as it goes on without a gap and is ahead of the store."""
        tenant, job_id = self._request.tenant, self._request.job_id
        following = self._progress.follow(address, tenant, job_id, after=self._cursor, budget=self._budget)
        async with following as feed:
            with suppress(FeedEnded):
                await self._take(feed)
                while not self._lags():
                    await self._take(feed)

    async def _take(self, feed: Feed) -> None:
        """Delivers events until it is time to look at the store again. Raises FeedEnded, also at a gap."""
        until = self._clock() + self._pace.recheck
        while True:
            await self._outlet.events(self._following(feed, until))
            left = until - self._clock()
            if left <= 0:
                return
            if not await feed.arrival(min(left, self._pace.heartbeat)):
                await self._outlet.nothing()

    def _following(self, feed: Feed, until: float) -> Iterator[Event]:
        """The live events that are there and follow the cursor, until it is time."""
        outlet = self._outlet
        while self._clock() < until and (event := feed.ready()) is not None:
            place = place_of(event, outlet.cursor)
            if place is Place.NEXT:
                yield event
            elif place is Place.BEYOND_A_GAP:
                raise FeedEnded(GAP)

    def _lags(self) -> bool:
        """Whether the store has more than the worker's stream brought.

        Then the run is not the present one any more, its worker cannot be reached, or this reader is slow.
        """
        now = self._positions.latest(self._request.tenant, self._request.job_id)
        return now is not None and now.last_sequence > self._cursor

    @property
    def _cursor(self) -> Sequence:
        return self._outlet.cursor


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
