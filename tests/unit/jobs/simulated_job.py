"""A job that lives by the dice: claimed, streamed, flushed, crashed, finished; and its two readers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random

from budget.core import Budget
from budget.errors import DatabaseUnavailable
from jobs_service.service.ports import FeedEnded
from jobs_store.errors import JobNotFound
from jobs_store.events import Event, EventKind
from jobs_store.identifiers import JobId, Sequence, TenantId, epoch_of, sequence
from jobs_store.reading import Position
from jobs_store.states import JobState

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def event(at: Sequence, kind: EventKind, **attributes: object) -> Event:
    """An event of a job."""
    text = f"<{at}>" if kind is EventKind.TOKEN_DELTA else None
    return Event(sequence=at, kind=kind, time=NOON, attempt_number=1, text=text, attributes=attributes)


@dataclass(slots=True, kw_only=True)
class Run:
    """One attempt: its events, of which only a part is durable yet."""

    epoch: int
    events: list[Event]
    ended: bool = False

    def append(self, kind: EventKind, **attributes: object) -> None:
        """One more event, live at once."""
        self.events.append(event(sequence(self.epoch, len(self.events) + 1), kind, **attributes))


@dataclass(slots=True)
class SimulatedJob:
    """Its log, and what `step` does to it. `steps`: how much may still happen before it must finish."""

    random: Random
    steps: int
    epoch: int = 1
    state: JobState = JobState.QUEUED
    run: Run | None = None
    zombies: list[Run] = field(default_factory=list)
    durable: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.durable.append(event(sequence(1, 1), EventKind.STATE_CHANGED, state="QUEUED"))

    @property
    def position(self) -> Position:
        """Where it stands in the store."""
        return Position(
            state=self.state,
            epoch=self.epoch,
            last_sequence=self.durable[-1].sequence,
            worker_address=None if self.run is None else "worker",
        )

    def step(self) -> None:
        """Something happens, or nothing."""
        self.steps -= 1
        for zombie in self.zombies:
            zombie.append(EventKind.TOKEN_DELTA)
        if self.state is JobState.QUEUED:
            self._claim()
        elif self.run is not None:
            self._go_on(self.run)

    def _claim(self) -> None:
        first = self._open("RUNNING")
        self.run = Run(epoch=self.epoch, events=[first])
        self.run.append(EventKind.ATTEMPT_STARTED)
        self.durable += self.run.events
        self.state = JobState.RUNNING

    def _go_on(self, run: Run) -> None:
        dice = self.random.random()
        if self.steps < 0 or dice < 0.02:
            self._finish(run)
        elif dice < 0.10:
            self._take_over(run)
        elif dice < 0.30:
            self._flush(run)
        else:
            run.append(EventKind.TOKEN_DELTA)

    def _finish(self, run: Run) -> None:
        run.append(EventKind.RESULT_ACCEPTED)
        run.append(EventKind.STATE_CHANGED, state="SUCCEEDED", terminal=True)
        self._flush(run)
        run.ended = True
        self.state, self.run = JobState.SUCCEEDED, None

    def _take_over(self, run: Run) -> None:
        """What was not flushed dies; the run may go on for a while and not know it."""
        (self.zombies if self.random.random() < 0.5 else []).append(run)
        run.ended = run not in self.zombies
        self.durable.append(self._open("QUEUED"))
        self.state, self.run = JobState.QUEUED, None

    def _flush(self, run: Run) -> None:
        last = self.durable[-1].sequence
        self.durable += [each for each in run.events if each.sequence > last]

    def _open(self, state: str) -> Event:
        self.epoch += 1
        last = self.durable[-1].sequence
        return event(
            sequence(self.epoch, 1), EventKind.STATE_CHANGED, state=state, last_durable_sequence=last
        )


@dataclass(slots=True)
class SimulatedStore:
    """The store's side of a simulated job; away now and then."""

    job: SimulatedJob
    outages: float = 0.0
    reads: int = 0

    async def position(self, tenant: TenantId, job_id: JobId, *, budget: Budget) -> Position:
        """See EventReader."""
        self._read()
        if tenant != "demo":
            raise JobNotFound(job_id)
        return self.job.position

    async def events(
        self, tenant: TenantId, job_id: JobId, *, after: Sequence, limit: int, budget: Budget
    ) -> list[Event]:
        """See EventReader."""
        self._read()
        return [each for each in self.job.durable if each.sequence > after][:limit]

    def _read(self) -> None:
        self.reads += 1
        self.job.step()
        if self.reads > 1 and self.job.random.random() < self.outages:
            raise DatabaseUnavailable(dependency="postgres", method="read")


@dataclass(slots=True)
class SimulatedTimer:
    """A timer that knows where the job stands, and on which nobody relies."""

    job: SimulatedJob
    ticking: bool = False

    def latest(self, tenant: TenantId, job_id: JobId) -> Position | None:
        """See Positions."""
        return self.job.position


@dataclass(slots=True)
class SimulatedWorkers:
    """The workers' side: one address, where any run of the job may be found, the present or a dead one."""

    job: SimulatedJob
    followed: int = 0

    @asynccontextmanager
    async def follow(
        self, address: str, tenant: TenantId, job_id: JobId, *, after: Sequence, budget: Budget
    ) -> AsyncIterator["SimulatedFeed"]:
        """See ProgressSource."""
        self.followed += 1
        for _ in range(self.job.random.choice([0, 0, 0, 5, 40])):
            self.job.step()
        runs = [run for run in (self.job.run, *self.job.zombies) if run is not None]
        yield SimulatedFeed(self.job, self.job.random.choice(runs) if runs else None, after)


@dataclass(slots=True)
class SimulatedFeed:
    """A worker's stream that may skip, repeat, stall or break."""

    job: SimulatedJob
    run: Run | None
    cursor: Sequence

    def __post_init__(self) -> None:
        if self.run is not None and self.job.random.random() < 0.2:
            self.cursor = Sequence(self.cursor - self.job.random.randint(0, 3))

    async def arrival(self, within: float) -> bool:
        """See Feed."""
        await asyncio.sleep(0)
        return False

    def ready(self) -> Event | None:
        """See Feed."""
        self.job.step()
        dice = self.job.random.random()
        if self.run is None or dice < 0.03:
            raise FeedEnded("NOT_OWNER" if self.run is None else "RE_READ")
        held = [each for each in self.run.events if each.sequence > self.cursor]
        if dice < 0.08:
            held = held[1:]
        if held:
            self.cursor = held[0].sequence
            return held[0]
        if self.run.ended:
            raise FeedEnded("ENDED")
        return None


def as_a_reader_keeps_it(events: list[Event]) -> list[Event]:
    """What a reader has who drops, at the first event of an epoch, what lies beyond the last durable one."""
    kept: list[Event] = []
    for each in events:
        last = each.attributes.get("last_durable_sequence")
        if isinstance(last, int) and kept and epoch_of(kept[-1].sequence) < epoch_of(each.sequence):
            kept = [earlier for earlier in kept if earlier.sequence <= last]
        kept.append(each)
    return kept
