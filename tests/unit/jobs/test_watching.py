"""Watching: the store and a worker's stream joined, whatever either of them does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from random import Random
from uuid import UUID

import pytest

from budget.core import Budget
from budget.errors import BudgetTooLow, DatabaseUnavailable
from jobs_service.service.pauses import Pace
from jobs_service.service.watching import Heartbeat, JobWatcher, WatchPace, WatchRequest
from jobs_store.errors import CursorOutOfRange, JobNotFound
from jobs_store.events import Event, EventKind
from jobs_store.identifiers import START, JobId, Sequence, TenantId, sequence
from jobs_store.reading import Position
from jobs_store.states import JobState
from jobs_store.subscriptions import Subscriptions
from servicekit.errors import Resume
from tests.unit.jobs.simulated_job import (
    SimulatedJob,
    SimulatedStore,
    SimulatedTimer,
    SimulatedWorkers,
    as_a_reader_keeps_it,
    event,
)

JOB = JobId(UUID(int=1))
QUICK = Pace(jitter=lambda ceiling: ceiling, first=1e-6, longest=1e-6)


class Clock:
    """Every look at it costs a second."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def request(
    after: Sequence = START, kinds: frozenset[EventKind] = frozenset(), tenant: str = "demo"
) -> WatchRequest:
    return WatchRequest(tenant=TenantId(tenant), job_id=JOB, after=after, kinds=kinds)


def watcher(store: SimulatedStore, *, heartbeat: float = 1e9, patience: float = 1e9) -> JobWatcher:
    pace = WatchPace(pause=QUICK, heartbeat=heartbeat, recheck=20.0, patience=patience, page=7)
    timer = SimulatedTimer(store.job)
    return JobWatcher(store, SimulatedWorkers(store.job), Subscriptions(), timer, pace=pace, clock=Clock())


def endless() -> Budget:
    return Budget.for_stream(incoming=None)


class Dropped(Exception):
    """The caller is gone."""


class Received:
    """What a caller got; it leaves after so many events."""

    def __init__(self, leave_after: float = float("inf")) -> None:
        self.items: list[Event | Heartbeat] = []
        self._leave_after = leave_after

    @property
    def events(self) -> list[Event]:
        return [item for item in self.items if isinstance(item, Event)]

    async def send(self, item: Event | Heartbeat) -> None:
        self.items.append(item)
        if len(self.events) >= self._leave_after:
            raise Dropped


async def watched(
    store: SimulatedStore, after: Sequence = START, kinds: frozenset[EventKind] = frozenset()
) -> list[Event]:
    received = Received()
    await watcher(store).watch(request(after, kinds), budget=endless(), send=received.send)
    return received.events


def sequences(events: list[Event]) -> list[int]:
    return [each.sequence for each in events]


@pytest.mark.parametrize("block", range(10))
@pytest.mark.scenario("W1")
async def test_a_stream_joined_at_any_moment_is_the_log_once_and_in_order(block: int) -> None:
    for seed in range(block * 50, block * 50 + 50):
        random = Random(seed)
        job = SimulatedJob(random, steps=random.randint(0, 150))
        for _ in range(random.randint(0, 80)):
            job.step()
        got = await watched(SimulatedStore(job, outages=0.05))
        assert sequences(got) == sorted(set(sequences(got))), f"seed {seed}"
        assert sequences(as_a_reader_keeps_it(got)) == sequences(job.durable), f"seed {seed}"


@pytest.mark.parametrize("block", range(5))
async def test_a_stream_dropped_anywhere_goes_on_where_it_was(block: int) -> None:
    for seed in range(block * 50, block * 50 + 50):
        random = Random(seed)
        job = SimulatedJob(random, steps=random.randint(20, 150))
        store = SimulatedStore(job)
        received = Received(leave_after=random.randint(1, 60))
        with suppress(Dropped):
            await watcher(store).watch(request(), budget=endless(), send=received.send)
        first = received.events
        rest = await watched(store, after=first[-1].sequence)
        got = first + rest
        assert sequences(got) == sorted(set(sequences(got))), f"seed {seed}"
        assert sequences(as_a_reader_keeps_it(got)) == sequences(job.durable), f"seed {seed}"


def finished() -> SimulatedJob:
    job = SimulatedJob(Random(3), steps=40)
    for _ in range(200):
        job.step()
    assert job.state is JobState.SUCCEEDED
    return job


@pytest.mark.scenario("W6")
async def test_a_finished_job_is_replayed_to_its_terminal_event() -> None:
    job = finished()
    got = await watched(SimulatedStore(job))
    assert got == job.durable
    assert got[-1].ends_stream


async def test_a_replay_of_an_unfinished_job_ends_after_what_is_durable() -> None:
    job = SimulatedJob(Random(3), steps=1000)
    for _ in range(8):
        job.step()
    received = Received()
    await watcher(SimulatedStore(job)).watch(
        replace(request(), replay_only=True), budget=endless(), send=received.send
    )
    assert job.state is JobState.RUNNING
    assert received.events == job.durable


async def test_a_cursor_at_the_terminal_event_ends_at_once() -> None:
    job = finished()
    assert await watched(SimulatedStore(job), after=job.durable[-1].sequence) == []


async def test_a_cursor_beyond_the_end_of_a_finished_job_is_out_of_range() -> None:
    job = finished()
    with pytest.raises(CursorOutOfRange):
        await watched(SimulatedStore(job), after=Sequence(job.durable[-1].sequence + 1))


async def test_a_cursor_of_an_epoch_that_never_was_is_out_of_range() -> None:
    job = SimulatedJob(Random(3), steps=40)
    with pytest.raises(CursorOutOfRange):
        await watched(SimulatedStore(job), after=sequence(9, 1))


@pytest.mark.scenario("W3")
async def test_a_cursor_in_text_that_died_goes_on_at_the_next_epoch() -> None:
    job = finished()
    lost = Sequence(job.durable[0].sequence + 50)
    got = await watched(SimulatedStore(job), after=lost)
    assert got == job.durable[1:]
    assert got[0].sequence == sequence(2, 1)


@pytest.mark.scenario("W6")
async def test_a_job_that_is_retried_after_its_end_is_watched_into_the_new_epoch() -> None:
    job = finished()
    job.durable.append(
        event(
            sequence(job.epoch + 1, 1),
            EventKind.STATE_CHANGED,
            state="QUEUED",
            last_durable_sequence=job.durable[-1].sequence,
        )
    )
    job.epoch, job.state, job.steps = job.epoch + 1, JobState.QUEUED, 20
    got = await watched(SimulatedStore(job))
    assert sequences(as_a_reader_keeps_it(got)) == sequences(job.durable)
    assert sum(each.ends_stream for each in got) == 2


async def test_a_filter_lets_the_terminal_event_through() -> None:
    job = finished()
    got = await watched(SimulatedStore(job), kinds=frozenset({EventKind.ATTEMPT_STARTED}))
    assert {each.kind for each in got[:-1]} == {EventKind.ATTEMPT_STARTED}
    assert got[-1].ends_stream


async def test_silence_is_broken_by_heartbeats_that_name_the_cursor() -> None:
    job = SimulatedJob(Random(3), steps=300)
    received = Received()
    await watcher(SimulatedStore(job), heartbeat=5.0).watch(
        request(kinds=frozenset({EventKind.CONTENT_ERASED})), budget=endless(), send=received.send
    )
    beats = [item.sequence for item in received.items if isinstance(item, Heartbeat)]
    assert beats == sorted(beats)
    assert beats[-1] > START
    assert [event.kind for event in received.events] == [EventKind.STATE_CHANGED]


async def test_a_job_that_is_not_there_is_not_found() -> None:
    stranger = request(tenant="other")
    with pytest.raises(JobNotFound):
        await watcher(SimulatedStore(finished())).watch(stranger, budget=endless(), send=Received().send)


async def test_a_store_that_stays_away_ends_the_stream_with_its_error() -> None:
    store = SimulatedStore(SimulatedJob(Random(3), steps=10**9), outages=1.0)
    with pytest.raises(DatabaseUnavailable):
        await watcher(store, patience=30.0).watch(request(), budget=endless(), send=Received().send)


class OutOfTime(SimulatedStore):
    """A store that the budget does not allow to be asked."""

    async def position(self, tenant: TenantId, job_id: JobId, *, budget: Budget) -> Position:
        raise BudgetTooLow(remaining=0.0, floor=0.1, dependency="postgres", method="read_position")


async def test_a_budget_that_ends_tells_the_caller_to_come_again() -> None:
    with pytest.raises(Resume):
        await watcher(OutOfTime(finished())).watch(request(), budget=endless(), send=Received().send)


class Clinging:
    """A worker that cannot be reached, or lost its job and does not know: its stream brings nothing.

    longest_wait: looks at the stream while the store had more than the reader.
    """

    def __init__(self, job: SimulatedJob, received: Received) -> None:
        self._job = job
        self._received = received
        self.followed = 0
        self.longest_wait = 0
        self._wait = 0

    @asynccontextmanager
    async def follow(
        self, address: str, tenant: TenantId, job_id: JobId, *, after: Sequence, budget: Budget
    ) -> AsyncIterator["Clinging"]:
        self.followed += 1
        yield self

    async def arrival(self, within: float) -> bool:
        await asyncio.sleep(0)
        return False

    def ready(self) -> Event | None:
        self._job.step()
        assert self._job.steps > -10_000, "the watcher clings to a dead run"
        behind = self._received.events[-1].sequence < self._job.durable[-1].sequence
        self._wait = self._wait + 1 if behind else 0
        self.longest_wait = max(self.longest_wait, self._wait)
        return None


async def test_a_watcher_leaves_a_run_that_lost_its_job() -> None:
    job = SimulatedJob(Random(4), steps=50)
    store, received = SimulatedStore(job), Received()
    workers = Clinging(job, received)
    pace = WatchPace(pause=QUICK, heartbeat=1e9, recheck=5.0, patience=1e9)
    timer = SimulatedTimer(job)
    watching = JobWatcher(store, workers, Subscriptions(), timer, pace=pace, clock=Clock())
    await watching.watch(request(), budget=endless(), send=received.send)
    assert workers.followed
    assert workers.longest_wait < 10, "the store had events, and the watcher waited for the stream"
    assert sequences(job.durable) == sequences(received.events)


class Flood:
    """A worker whose stream always has the next event already."""

    def __init__(self) -> None:
        self._last = START

    @asynccontextmanager
    async def follow(
        self, address: str, tenant: TenantId, job_id: JobId, *, after: Sequence, budget: Budget
    ) -> AsyncIterator["Flood"]:
        self._last = after
        yield self

    async def arrival(self, within: float) -> bool:
        raise AssertionError("the next event is there, and is waited for")

    def ready(self) -> Event | None:
        self._last = Sequence(self._last + 1)
        return event(self._last, EventKind.TOKEN_DELTA)


async def test_a_stream_that_never_pauses_is_still_compared_with_the_store_and_never_waited_for() -> None:
    job = SimulatedJob(Random(3), steps=1000)
    while job.run is None:
        job.step()
    looks: list[int] = []

    class Timer(SimulatedTimer):
        def latest(self, tenant: TenantId, job_id: JobId) -> Position | None:
            looks.append(1)
            return None

    received, workers = Received(leave_after=200), Flood()
    pace = WatchPace(pause=QUICK, heartbeat=1e9, recheck=20.0, patience=1e9)
    watching = JobWatcher(SimulatedStore(job), workers, Subscriptions(), Timer(job), pace=pace, clock=Clock())
    with suppress(Dropped):
        await watching.watch(request(), budget=endless(), send=received.send)
    assert len(received.events) == 200
    assert looks
    assert sequences(received.events) == sorted(set(sequences(received.events)))
