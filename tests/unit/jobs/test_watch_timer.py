"""The one timer of a process for everything that is watched or waited for."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from uuid import UUID

import pytest

from budget.core import Budget
from budget.errors import DatabaseUnavailable
from jobs_service.service.ports import JobKey
from jobs_service.service.watch_timer import TimerPace, WatchTimer
from jobs_store.identifiers import JobId, TenantId, sequence
from jobs_store.reading import Position
from jobs_store.signals import job_changed, jobs_ready
from jobs_store.states import JobState
from jobs_store.subscriptions import Subscriptions, Wakeup

QUEUED = Position(
    state=JobState.QUEUED, epoch=1, last_sequence=sequence(1, 1), worker_address=None, trimmed=False
)
RUNNING = replace(QUEUED, state=JobState.RUNNING, epoch=2, worker_address="worker")


def key(number: int) -> JobKey:
    return TenantId(f"tenant-{number % 7}"), JobId(UUID(int=number))


class Store:
    """Jobs, each somewhere; counts its statements."""

    def __init__(self, count: int) -> None:
        self.positions_of = {key(number): QUEUED for number in range(count)}
        self.asked: list[int] = []
        self.away = False

    async def positions(self, jobs: Sequence[JobKey], *, budget: Budget) -> Mapping[JobKey, Position]:
        self.asked.append(len(jobs))
        if self.away:
            raise DatabaseUnavailable(dependency="postgres", method="read_positions")
        return {job: self.positions_of[job] for job in jobs if job in self.positions_of}


class Waiting:
    """A timer over a store, and everybody who waits."""

    def __init__(self, stack: ExitStack, *, jobs: int) -> None:
        self.store = Store(jobs)
        self.subscriptions = Subscriptions()
        self.timer = WatchTimer(self.store, self.subscriptions, TimerPace(jitter=lambda _: 0.0, failures=2))
        self._stack = stack

    def wait_for(self, number: int) -> Wakeup:
        return self._stack.enter_context(self.subscriptions.subscribe(job_changed(*key(number))))


async def woken(*wakeups: Wakeup) -> list[bool]:
    return [await wakeup.wait(Budget.for_work(1e-6)) for wakeup in wakeups]


async def test_a_tick_is_one_statement_for_all_who_wait() -> None:
    with ExitStack() as stack:
        waiting = Waiting(stack, jobs=1000)
        for _ in range(5):
            for number in range(1000):
                waiting.wait_for(number)
        stack.enter_context(waiting.subscriptions.subscribe(jobs_ready("lane")))
        for _ in range(3):
            await waiting.timer.tick()
        assert [1000] * 3 == waiting.store.asked


async def test_nobody_waits_and_nothing_is_asked() -> None:
    with ExitStack() as stack:
        waiting = Waiting(stack, jobs=3)
        await waiting.timer.tick()
        assert [] == waiting.store.asked
        assert waiting.timer.ticking


@pytest.mark.scenario("O3")
async def test_a_change_that_nobody_told_wakes_all_who_wait_for_that_job_and_nobody_else() -> None:
    with ExitStack() as stack:
        waiting = Waiting(stack, jobs=2)
        first, second, other = waiting.wait_for(0), waiting.wait_for(0), waiting.wait_for(1)
        await waiting.timer.tick()
        await woken(first, second, other)
        await waiting.timer.tick()
        assert [False] * 3 == await woken(first, second, other)
        waiting.store.positions_of[key(0)] = RUNNING
        await waiting.timer.tick()
        assert [True, True, False] == await woken(first, second, other)


async def test_who_waits_since_the_last_tick_looks_once_because_nobody_knows_what_they_saw() -> None:
    with ExitStack() as stack:
        waiting = Waiting(stack, jobs=1)
        wakeup = waiting.wait_for(0)
        await waiting.timer.tick()
        assert [True] == await woken(wakeup)


@pytest.mark.parametrize(
    ("now", "wakes"),
    [
        (replace(RUNNING, last_sequence=sequence(2, 9)), False),
        (replace(RUNNING, worker_address="another"), True),
        (replace(RUNNING, epoch=3), True),
        (replace(RUNNING, state=JobState.SUCCEEDED, worker_address=None), True),
    ],
)
async def test_events_that_a_worker_streams_wake_nobody_but_changes_of_state_do(
    now: Position, wakes: bool
) -> None:
    with ExitStack() as stack:
        waiting = Waiting(stack, jobs=1)
        wakeup = waiting.wait_for(0)
        waiting.store.positions_of[key(0)] = RUNNING
        await waiting.timer.tick()
        await woken(wakeup)
        waiting.store.positions_of[key(0)] = now
        await waiting.timer.tick()
        assert [wakes] == await woken(wakeup)
        assert now == waiting.timer.latest(*key(0))


async def test_a_timer_that_fails_leaves_the_looking_to_those_who_wait_until_it_ticks_again() -> None:
    with ExitStack() as stack:
        waiting = Waiting(stack, jobs=1)
        wakeup = waiting.wait_for(0)
        assert not waiting.timer.ticking
        await waiting.timer.tick()
        await woken(wakeup)
        waiting.store.away = True
        await waiting.timer.tick()
        assert (True, [False]) == (waiting.timer.ticking, await woken(wakeup))
        await waiting.timer.tick()
        assert (False, [True]) == (waiting.timer.ticking, await woken(wakeup))
        waiting.store.away = False
        await waiting.timer.tick()
        assert waiting.timer.ticking


async def test_a_job_that_is_not_there_holds_nobody_else_up() -> None:
    with ExitStack() as stack:
        waiting = Waiting(stack, jobs=1)
        waiting.wait_for(99)
        wakeup = waiting.wait_for(0)
        await waiting.timer.tick()
        assert [True] == await woken(wakeup)
        assert waiting.timer.latest(*key(99)) is None
