"""WatchJob: one job's events from a cursor on, from the store and, while a worker runs it, from that worker.

The store is the truth and is read first; a worker's stream only brings forward what the store will have.
Whenever that stream ends, skips something, or the job has moved on, the store is read again. Nothing is held
while an event is on its way to the caller: no connection, no transaction.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
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
from jobs_service.domain.splice import Place, check_cursor, check_kept, is_over, is_wanted, place_of
from jobs_service.service.pauses import Pace, Pauses
from jobs_service.service.ports import EventReader, Feed, FeedEnded, Positions, ProgressSource
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
            outlet = _Outlet(send, request.kinds, interval=self._pace.heartbeat, clock=self._clock)
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
    """What goes to the caller: wanted events, and a sign of life when there were none for a while."""

    def __init__(self, send: Send, kinds: frozenset[EventKind], *, interval: float, clock: Clock) -> None:
        self._send = send
        self._kinds = kinds
        self._interval = interval
        self._clock = clock
        self._last = clock()

    async def event(self, event: Event) -> None:
        """Sends an event if it is wanted."""
        if is_wanted(event, self._kinds):
            await self._send(event)
            self._last = self._clock()
        else:
            await self.nothing(event.sequence)

    async def nothing(self, cursor: Sequence) -> None:
        """Nothing to send; sends a heartbeat when that has lasted."""
        if self._clock() - self._last >= self._interval:
            await self._send(Heartbeat(sequence=cursor))
            self._last = self._clock()


class _Stream:
    """One reader of one job. `_cursor`: the last sequence that it has, wanted or not."""

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
        self._cursor = reads.request.after
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
            for event in page or ():
                await self._deliver(event)
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

    async def _rest(self, position: Position | None) -> None:
        """Until the store is worth a look again. While the timer ticks and no worker has the job, only a
        wake-up makes it so."""
        settled, until = self._pauses.settled, self._clock() + self._pauses.take()
        idle = position is not None and position.worker_address is None
        while True:
            timed = settled and idle and self._positions.ticking
            left = self._pace.heartbeat if timed else until - self._clock()
            woken = await self._wakeup.wait(self._budget.child(min(left, self._pace.heartbeat)))
            await self._outlet.nothing(self._cursor)
            if woken or self._budget.spendable() <= 0 or not (timed or self._clock() < until):
                return

    async def _follow(self, address: str) -> None:
        """A worker's stream, for as long as it goes on without a gap and is ahead of the store."""
        tenant, job_id = self._request.tenant, self._request.job_id
        following = self._progress.follow(address, tenant, job_id, after=self._cursor, budget=self._budget)
        async with following as feed:
            with suppress(FeedEnded):
                while await self._take(feed) and not self._lags():
                    pass

    async def _take(self, feed: Feed) -> bool:
        """Delivers events until it is time to look at the store again; False at a gap. Raises FeedEnded."""
        until = self._clock() + self._pace.recheck
        while (left := until - self._clock()) > 0:
            event = await feed.next(min(left, self._pace.heartbeat))
            if event is None:
                await self._outlet.nothing(self._cursor)
                continue
            match place_of(event, self._cursor):
                case Place.NEXT:
                    await self._deliver(event)
                case Place.BEYOND_A_GAP:
                    return False
                case Place.BEHIND:
                    pass
        return True

    def _lags(self) -> bool:
        """Whether the store has more than the worker's stream brought.

        Then the run is not the present one any more, its worker cannot be reached, or this reader is slow.
        """
        now = self._positions.latest(self._request.tenant, self._request.job_id)
        return now is not None and now.last_sequence > self._cursor

    async def _deliver(self, event: Event) -> None:
        await self._outlet.event(event)
        self._cursor = event.sequence
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
