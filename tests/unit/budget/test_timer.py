"""Waiting for something for so long and no longer."""

import asyncio

import pytest

from budget.timer import in_time

SOON = 0.001
LONG = 60.0


async def test_what_ends_in_time_has_ended_in_time() -> None:
    assert await in_time(asyncio.sleep(0), seconds=LONG)


async def test_what_takes_longer_is_cancelled_and_told() -> None:
    never = asyncio.get_running_loop().create_future()
    assert not await in_time(never, seconds=SOON)
    assert never.cancelled()


async def test_the_cancel_of_the_timer_is_taken_back() -> None:
    assert not await in_time(asyncio.Event().wait(), seconds=SOON)
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


async def test_an_error_passes_as_it_is() -> None:
    async def fail() -> None:
        raise LookupError("nothing there")

    with pytest.raises(LookupError, match="nothing there"):
        await in_time(fail(), seconds=LONG)


async def test_a_cancel_from_outside_passes() -> None:
    waiting = asyncio.create_task(in_time(asyncio.Event().wait(), seconds=LONG))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_cancel_from_outside_wins_over_the_timers() -> None:
    async def slow_to_go() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            waiting.cancel()  # from outside, while the timer's is on its way
            raise

    waiting = asyncio.create_task(in_time(slow_to_go(), seconds=SOON))
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_work_that_ends_well_although_it_was_cancelled_has_ended() -> None:
    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return

    assert await in_time(stubborn(), seconds=SOON)
