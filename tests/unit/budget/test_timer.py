"""Waiting for something for so long and no longer, once or again and again."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import closing

import pytest

from budget.timer import Waits, in_time

SOON = 0.001
LONG = 60.0

Wait = Callable[..., Coroutine[object, object, bool]]


async def once(work: Awaitable[object], *, seconds: float) -> bool:
    return await in_time(work, seconds=seconds)


async def repeated(work: Awaitable[object], *, seconds: float) -> bool:
    """As the second of two waits, of which the first left the timer set for long."""
    with closing(Waits.here()) as waits:
        assert await waits.in_time(asyncio.sleep(0), seconds=LONG)
        return await waits.in_time(work, seconds=seconds)


@pytest.fixture(params=[once, repeated])
def wait(request: pytest.FixtureRequest) -> Wait:
    """Both ways to wait promise the same."""
    wait: Wait = request.param
    return wait


async def test_what_ends_in_time_has_ended_wait(wait: Wait) -> None:
    assert await wait(asyncio.sleep(0), seconds=LONG)


async def test_what_takes_longer_is_cancelled_and_told(wait: Wait) -> None:
    never = asyncio.get_running_loop().create_future()
    assert not await wait(never, seconds=SOON)
    assert never.cancelled()


async def test_the_cancel_of_the_timer_is_taken_back(wait: Wait) -> None:
    assert not await wait(asyncio.Event().wait(), seconds=SOON)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0)


async def test_without_an_end_it_waits_for_as_long_as_it_takes() -> None:
    event = asyncio.Event()
    waiting = asyncio.create_task(in_time(event.wait(), seconds=None))
    await asyncio.sleep(0)
    event.set()
    assert await waiting


async def test_an_error_passes_as_it_is(wait: Wait) -> None:
    async def fail() -> None:
        raise LookupError("nothing there")

    with pytest.raises(LookupError, match="nothing there"):
        await wait(fail(), seconds=LONG)


async def test_a_cancel_from_outside_passes(wait: Wait) -> None:
    begun = asyncio.Event()

    async def work() -> None:
        begun.set()
        await asyncio.Event().wait()

    waiting = asyncio.create_task(wait(work(), seconds=LONG))
    await begun.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_cancel_from_outside_wins_over_the_timers(wait: Wait) -> None:
    async def slow_to_go() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            waiting.cancel()  # from outside, while the timer's is on its way
            raise

    waiting = asyncio.create_task(wait(slow_to_go(), seconds=SOON))
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_work_that_ends_well_although_it_was_cancelled_has_ended(wait: Wait) -> None:
    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return

    assert await wait(stubborn(), seconds=SOON)


async def test_one_timer_serves_many_waits_and_ends_with_their_block() -> None:
    loop = asyncio.get_running_loop()
    with closing(Waits.here()) as waits:
        started = loop.time()
        for _ in range(3):
            assert not await waits.in_time(asyncio.Event().wait(), seconds=0.01)
            assert await waits.in_time(asyncio.sleep(0), seconds=LONG)
        assert loop.time() - started >= 0.03
    await asyncio.sleep(0)


async def test_a_timer_that_was_set_for_an_earlier_wait_does_not_end_a_later_one() -> None:
    with closing(Waits.here()) as waits:
        assert await waits.in_time(asyncio.sleep(0), seconds=0.01)
        assert await waits.in_time(asyncio.sleep(0.03), seconds=LONG)
