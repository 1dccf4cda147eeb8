"""A run's event log in memory: numbered, live to readers at once, durable a little later.

Readers share the one log and keep only their place in it. What is durable may be trimmed; a reader whose
place was trimmed, because it came late or was too slow, reads the store instead. So neither a slow reader nor
many of them cost memory or time.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from budget.timer import in_time
from jobs_store.events import Event, EventKind, NewEvent
from jobs_store.identifiers import Sequence, epoch_of, sequence
from jobs_store.runs import FIRST_FREE_EVENT, Append
from jobs_store.states import Cause, JobState
from worker.ending import Tail

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobs_store.runs import Claimed

_SIZE_OF_EVENT: Final = 128
"""What an event without text counts, in bytes, so that many small ones count too."""


class TooFarBack(Exception):
    """What follows the reader's cursor is not held any more."""


class LogEnd(StrEnum):
    """Why nothing more comes."""

    COMPLETE = "COMPLETE"
    """The run has ended and its last event is durable."""
    NOT_OWNER = "NOT_OWNER"
    """The run does not write this job's log any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLimits:
    """What a log holds beyond what is not durable yet: at most so many events and bytes of text."""

    events: int = 4096
    size: int = 1024 * 1024


class EventLog:
    """The events of one run, in its epoch."""

    def __init__(self, run: Claimed, *, worker_id: str, limits: LogLimits) -> None:
        self.end: LogEnd | None = None
        self.unflushed_size = 0
        self.in_doubt = False
        """A flush came to no answer: more may be durable than is known here."""
        self._run = run
        self._limits = limits
        self._held = _events_of_claim(run, worker_id)
        self._first = 1
        """Number of the first event that is held."""
        self._made_at = time.monotonic()
        self._durable = FIRST_FREE_EVENT - 1
        self._size = 0
        self._changed: asyncio.Event | None = None
        """Made by whoever waits: most logs are never read."""
        self.watched = False
        """Whether anybody has begun to read it."""

    @property
    def epoch(self) -> int:
        """The epoch that the log's events lie in."""
        return self._run.epoch

    @property
    def last(self) -> int:
        """Number of the last event."""
        return self._first + len(self._held) - 1

    @property
    def has_unflushed(self) -> bool:
        """Whether events wait to be made durable."""
        return self.last > self._durable

    def now(self) -> datetime:
        """The time by the database's clock, as told by the claim: this machine's may be off."""
        return self._run.claim_time + timedelta(seconds=time.monotonic() - self._made_at)

    def append(self, new: NewEvent) -> None:
        """Adds an event of the attempt. Readers see it at once."""
        self._add(new, time=new.time or self.now())
        self.unflushed_size += _size_of(new)
        self._tell()

    def started(self, new: NewEvent, *, time: datetime) -> None:
        """Adds the event that the start step has written."""
        self._add(new, time=time)
        self.flushed(self.last)
        self._tell()

    def tail(self) -> Tail:
        """The events that may not be durable."""
        waiting = self._held[self._durable + 1 - self._first :]
        return Tail(first_event=self._durable + 1, events=tuple(map(_as_new, waiting)))

    def unflushed(self, *, most: int) -> Append:
        """The first `most` events that may not be durable, as the store takes them."""
        run, tail = self._run, self.tail()
        return Append(
            tenant=run.tenant,
            job_id=run.job_id,
            token=run.token,
            epoch=run.epoch,
            attempt_number=run.attempt_number,
            first_event=tail.first_event,
            events=tail.events[:most],
        )

    def flushed(self, last: int) -> None:
        """Everything up to event `last` is durable, and no more."""
        self.in_doubt = False
        self._durable = max(self._durable, last)
        self.unflushed_size = sum(map(_size_of, self.tail().events))
        self._trim()

    def complete(self, last_events: Iterable[Event]) -> None:
        """The run's ending is durable; `last_events` are those that it wrote after the tail."""
        if self.end is None:
            self._held.extend(last_events)
            self._durable = self.last
            self.close(LogEnd.COMPLETE)

    def close(self, end: LogEnd) -> None:
        """Nothing more comes. The first end counts."""
        self.end = self.end or end
        self._tell()

    def place_of(self, cursor: Sequence) -> int:
        """The number of the event that follows a reader's cursor.

        A cursor beyond the last durable event before this run lies in text that died: it goes on at the run's
        first event.
        Raises TooFarBack when events between the cursor and what is held are missing.
        """
        self.watched = True
        epoch = epoch_of(cursor)
        if epoch == self._run.epoch:
            return cursor - sequence(epoch, 0) + 1
        if cursor < self._run.last_sequence:
            raise TooFarBack
        return 1

    def read(self, place: int, *, most: int) -> list[Event]:
        """Up to `most` events from number `place` on. Raises TooFarBack."""
        if place < self._first:
            raise TooFarBack
        return self._held[place - self._first : place - self._first + most]

    async def wait_beyond(self, place: int, *, seconds: float) -> bool:
        """Waits until event `place` is there or nothing more comes; False when it took longer."""
        return self._has(place) or await in_time(self._change_to(place), seconds=seconds)

    def _has(self, place: int) -> bool:
        return self.last >= place or self.end is not None

    async def _change_to(self, place: int) -> None:
        while not self._has(place):
            self._changed = self._changed or asyncio.Event()
            await self._changed.wait()

    def place_events(self, news: Iterable[NewEvent], *, time: datetime) -> list[Event]:
        """The events as they follow the log's last one, in their places, without adding them."""
        return [self._placed(new, self.last + 1 + n, time=new.time or time) for n, new in enumerate(news)]

    def _add(self, new: NewEvent, *, time: datetime) -> None:
        self._held.append(self._placed(new, self.last + 1, time=time))
        self._size += _size_of(new)

    def _placed(self, new: NewEvent, number: int, *, time: datetime) -> Event:
        of_job = new.kind is EventKind.STATE_CHANGED
        return Event(
            sequence=sequence(self._run.epoch, number),
            kind=new.kind,
            time=time,
            attempt_number=0 if of_job else self._run.attempt_number,
            text=new.text,
            attributes=new.attributes,
        )

    def _trim(self) -> None:
        events, size, trimmed = len(self._held), self._size, 0
        while trimmed <= self._durable - self._first and self._is_full(events - trimmed, size):
            size -= _size_of(self._held[trimmed])
            trimmed += 1
        del self._held[:trimmed]
        self._first, self._size = self._first + trimmed, size

    def _is_full(self, events: int, size: int) -> bool:
        return events > self._limits.events or size > self._limits.size

    def _tell(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None


def _events_of_claim(run: Claimed, worker_id: str) -> list[Event]:
    """The two events that the claim has written."""
    running = {
        "state": JobState.RUNNING,
        "cause": str(Cause.CLAIMED),
        "last_durable_sequence": run.last_sequence,
    }
    return [
        Event(
            sequence=sequence(run.epoch, number),
            kind=kind,
            time=run.claim_time,
            attempt_number=attempt_number,
            text=None,
            attributes=attributes,
        )
        for number, kind, attempt_number, attributes in (
            (1, EventKind.STATE_CHANGED, 0, running),
            (2, EventKind.ATTEMPT_STARTED, run.attempt_number, {"worker_id": worker_id}),
        )
    ]


def _as_new(event: Event) -> NewEvent:
    return NewEvent(kind=event.kind, time=event.time, text=event.text, attributes=event.attributes)


def _size_of(event: Event | NewEvent) -> int:
    return _SIZE_OF_EVENT + (4 * len(event.text) if event.text else 0)
