"""One stream of a worker for all watchers of a job in this process.

Its last events are held once, and every watcher keeps only its place among them. So a slow watcher costs
neither the worker nor the others anything: when its place is gone it reads the store instead.
"""

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import structlog

from budget.core import Budget
from budget.errors import BudgetError
from budget.spend import reason_of
from budget.timer import Waits
from jobs_service.service.ports import EventSource, FeedEnded
from jobs_store.events import Event
from jobs_store.identifiers import JobId, Sequence, TenantId

RE_READ: Final = "RE_READ"
ENDED: Final = "ENDED"
"""The worker's stream ended as it should: with the run."""

_log = structlog.stdlib.get_logger("hourglass.watch")

_Key: TypeAlias = tuple[str, TenantId, JobId]


class SharedProgress:
    """See `ports.ProgressSource`; `source` is asked once for each job and worker at a time.

    held: events of a job that watchers may lag behind by.
    """

    def __init__(self, source: EventSource, *, held: int) -> None:
        self._source = source
        self._held = held
        self._open: dict[_Key, _Upstream] = {}

    @property
    def streams(self) -> Mapping[tuple[str, TenantId, JobId], object]:
        """The streams that are open, by worker and job."""
        return self._open

    @asynccontextmanager
    async def follow(
        self,
        address: str,
        tenant: TenantId,
        job_id: JobId,
        *,
        after: Sequence,
        budget: Budget,  # noqa: ARG002 - the stream is not that of whoever came first
    ) -> AsyncIterator["SharedFeed"]:
        """See `ports.ProgressSource`. The stream lasts as long as anybody follows it, within the age that the
        worker allows."""
        key = (address, tenant, job_id)
        upstream = self._open.get(key)
        if upstream is None or upstream.window.end is not None:
            upstream = self._open[key] = self._begin(key, after)
        upstream.followers += 1
        try:
            with closing(Waits.here()) as waits:
                yield SharedFeed(upstream.window, after, waits)
        finally:
            upstream.followers -= 1
            if upstream.followers == 0:
                await self._leave(key, upstream)

    def _begin(self, key: _Key, after: Sequence) -> "_Upstream":
        window = Window(self._held)
        copying = asyncio.create_task(self._copy(key, after, window), name=f"share {key[2]}")
        return _Upstream(window=window, copying=copying)

    async def _leave(self, key: _Key, upstream: "_Upstream") -> None:
        if self._open.get(key) is upstream:
            del self._open[key]
        upstream.copying.cancel()
        await asyncio.wait({upstream.copying})

    async def _copy(self, key: _Key, after: Sequence, window: "Window") -> None:
        address, tenant, job_id = key
        unbounded = Budget.for_stream(incoming=None)
        cause = "INTERNAL"
        try:
            async with self._source.events(address, tenant, job_id, after=after, budget=unbounded) as events:
                async for event in events:
                    window.add(event)
            cause = ENDED
        except BudgetError as error:
            cause = reason_of(error)
        except Exception:  # noqa: BLE001 - its watchers read the store instead, and nobody looks at this task
            _log.exception("a shared stream failed", worker=address, job=str(job_id))
        finally:
            window.close(cause)


class Window:
    """The last events of one stream, for any number of readers."""

    def __init__(self, held: int) -> None:
        self.end: str | None = None
        """Why nothing more comes."""
        self._held = held
        self._events: list[Event] = []
        self._first = 0
        """How many were let go."""
        self._changed: asyncio.Event | None = None

    def add(self, event: Event) -> None:
        """One more event. It is let go when twice as many as are to be held have come: in one move."""
        self._events.append(event)
        if len(self._events) >= 2 * self._held:
            del self._events[: self._held]
            self._first += self._held
        self._tell()

    def close(self, cause: str) -> None:
        """Nothing more comes."""
        self.end = cause
        self._tell()

    def place_after(self, cursor: Sequence) -> int:
        """The place of the first event behind a cursor."""
        return self._first + bisect_right(self._events, cursor, key=_sequence_of)

    def at(self, place: int) -> Event | None:
        """The event in a place; None when it has not come. FeedEnded when it never will, or is gone."""
        index = place - self._first
        if index < 0:
            raise FeedEnded(RE_READ)
        if index < len(self._events):
            return self._events[index]
        if self.end is not None:
            raise FeedEnded(self.end)
        return None

    async def change(self) -> None:
        """Waits until something is added, or nothing more comes."""
        self._changed = self._changed or asyncio.Event()
        await self._changed.wait()

    def _tell(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None


class SharedFeed:
    """One reader's way through a window."""

    def __init__(self, window: Window, cursor: Sequence, waits: Waits) -> None:
        self._window = window
        self._waits = waits
        self._place: int | None = None
        self._cursor = cursor

    def ready(self) -> Event | None:
        """See `ports.Feed`."""
        if self._place is None:
            self._place = self._window.place_after(self._cursor)
        event = self._window.at(self._place)
        if event is not None:
            self._place += 1
        return event

    async def arrival(self, within: float) -> bool:
        """See `ports.Feed`; to be called when `ready` has nothing."""
        return await self._waits.in_time(self._window.change(), seconds=max(within, 1e-6))


@dataclass(slots=True, kw_only=True)
class _Upstream:
    window: Window
    copying: asyncio.Task[None]
    followers: int = field(default=0)


def _sequence_of(event: Event) -> Sequence:
    return event.sequence
