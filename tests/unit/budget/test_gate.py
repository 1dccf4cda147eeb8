import asyncio

import pytest

from budget.core import Budget
from budget.gate import STANDING, Gate
from tests.unit.budget.clocks import FakeClock


class Visitors:
    """Waiters at a gate that note who was let in."""

    def __init__(self, gate: Gate, clock: FakeClock) -> None:
        self.gate = gate
        self.clock = clock
        self.served: list[str] = []

    def enter(self, name: str, seconds: float = 10.0) -> "asyncio.Task[None]":
        budget = Budget.for_work(seconds, clock=self.clock)
        return asyncio.create_task(self._enter(name, budget))

    async def _enter(self, name: str, budget: Budget) -> None:
        await self.gate.enter(budget)
        self.served.append(name)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def visitors(clock: FakeClock) -> Visitors:
    return Visitors(Gate(1), clock)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_first_come_first_served(visitors: Visitors) -> None:
    tasks = [visitors.enter(name) for name in "abc"]
    await settle()
    assert visitors.served == ["a"]
    visitors.gate.leave()
    await settle()
    visitors.gate.leave()
    await asyncio.gather(*tasks)
    assert visitors.served == ["a", "b", "c"]


async def test_the_dead_are_passed_over_even_before_they_notice(visitors: Visitors, clock: FakeClock) -> None:
    visitors.enter("inside")
    dead = visitors.enter("dead", seconds=STANDING / 4)
    live = visitors.enter("live")
    await settle()
    clock.advance(STANDING / 2)
    assert visitors.gate.waiting == 1
    visitors.gate.leave()
    await live
    assert visitors.served == ["inside", "live"]
    dead.cancel()
    await asyncio.wait({dead})
    assert visitors.gate.inside == 1


async def test_a_waiter_that_leaves_is_forgotten(visitors: Visitors) -> None:
    visitors.enter("inside")
    gone = visitors.enter("gone")
    await settle()
    gone.cancel()
    await asyncio.wait({gone})
    assert (visitors.gate.waiting, visitors.gate.inside) == (0, 1)
    visitors.gate.leave()
    assert visitors.gate.inside == 0


async def test_a_slot_given_to_somebody_cancelled_in_the_same_tick_goes_on(visitors: Visitors) -> None:
    visitors.enter("inside")
    unlucky, next_one = visitors.enter("unlucky"), visitors.enter("next")
    await settle()
    visitors.gate.leave()
    unlucky.cancel()
    await next_one
    assert visitors.served == ["inside", "next"]
    visitors.gate.leave()
    assert visitors.gate.inside == 0


async def test_nobody_overtakes_those_who_wait(visitors: Visitors) -> None:
    visitors.enter("inside")
    first = visitors.enter("first")
    await settle()
    visitors.gate.leave()
    late = visitors.enter("late")
    await first
    assert visitors.served == ["inside", "first"]
    late.cancel()
    await asyncio.wait({late})


async def test_while_a_queue_stands_the_newest_is_served_first(visitors: Visitors, clock: FakeClock) -> None:
    tasks = [visitors.enter(name) for name in ("inside", "old", "new")]
    await settle()
    clock.advance(2 * STANDING)
    visitors.gate.leave()
    await settle()
    assert visitors.served == ["inside", "new"]
    visitors.gate.leave()
    await asyncio.gather(*tasks)
    assert visitors.served == ["inside", "new", "old"]


async def test_a_queue_that_was_empty_meanwhile_does_not_stand(visitors: Visitors, clock: FakeClock) -> None:
    first = [visitors.enter(name) for name in ("inside", "waits")]
    await settle()
    clock.advance(2 * STANDING)
    visitors.gate.leave()
    await asyncio.gather(*first)
    second = [visitors.enter(name) for name in ("a", "b")]
    await settle()
    visitors.gate.leave()
    await settle()
    visitors.gate.leave()
    await asyncio.gather(*second)
    assert visitors.served == ["inside", "waits", "a", "b"]
