"""How a run is told to stop."""

from __future__ import annotations

import asyncio

import pytest

from worker.interrupt import Interrupt, Interrupted
from worker.outcome import Stop


async def test_an_order_ends_the_block_that_waits() -> None:
    interrupt = Interrupt()
    asyncio.get_running_loop().call_soon(interrupt.order, Stop.CANCEL_REQUESTED)
    with pytest.raises(Interrupted) as interrupted:
        async with interrupt.guard():
            await asyncio.Event().wait()
    assert Stop.CANCEL_REQUESTED is interrupted.value.stop


async def test_after_an_order_no_block_begins() -> None:
    interrupt, begun = Interrupt(), False
    interrupt.order(Stop.SHUTDOWN)
    with pytest.raises(Interrupted):
        async with interrupt.guard():
            begun = True
    assert not begun


async def test_the_first_order_counts() -> None:
    interrupt = Interrupt()
    interrupt.order(Stop.LEASE_LOST)
    interrupt.order(Stop.SHUTDOWN)
    assert Stop.LEASE_LOST is interrupt.stop


async def test_a_block_that_ended_first_is_left_alone() -> None:
    interrupt = Interrupt()
    async with interrupt.guard():
        pass
    interrupt.order(Stop.SHUTDOWN)
    await asyncio.sleep(0)
    task = asyncio.current_task()
    assert task is not None
    assert 0 == task.cancelling()


async def test_a_timeout_inside_the_block_is_not_an_order() -> None:
    interrupt = Interrupt()
    with pytest.raises(TimeoutError):
        async with interrupt.guard(), asyncio.timeout(0.01):
            await asyncio.Event().wait()


async def test_a_cancel_of_the_task_is_not_an_order() -> None:
    interrupt, entered = Interrupt(), asyncio.Event()

    async def guarded() -> None:
        async with interrupt.guard():
            entered.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(guarded())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
