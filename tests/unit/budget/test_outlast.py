import asyncio

import pytest

from budget.cancel import CancelWatch
from budget.core import Budget
from budget.outlast import outlast, patience
from tests.unit.budget.clocks import FakeClock


async def test_work_is_seen_through_although_the_caller_is_cancelled_again_and_again() -> None:
    finish = asyncio.Event()
    work = asyncio.create_task(finish.wait())

    async def caller() -> bool:
        watch = CancelWatch.here()
        done = await outlast(work, budget=Budget.for_work(5))
        assert watch.cancelled, "the cancel was forgotten"
        return done

    task = asyncio.create_task(caller())
    for _ in range(3):
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.sleep(0)
    finish.set()
    assert await task


async def test_but_not_for_longer_than_its_budget() -> None:
    work = asyncio.create_task(asyncio.Event().wait())
    assert not await outlast(work, budget=Budget.for_work(0.01))
    assert not work.done()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work


@pytest.mark.parametrize(
    ("elapsed", "limit", "expected"),
    [(0.0, 0.5, 0.5), (1.8, 0.5, 0.05), (1.87, 0.5, 0.001), (1.95, 0.5, 0.5), (5.0, 0.5, 0.5)],
)
def test_patience_leaves_three_quarters_of_the_reserve_while_an_answer_is_possible(
    elapsed: float, limit: float, expected: float
) -> None:
    clock = FakeClock()
    budget = Budget.root(incoming=2.0, default=None, cap=None, clock=clock)
    clock.advance(elapsed)
    assert patience(budget, limit).initial == pytest.approx(expected)
