"""A timer for the running task: `asyncio.timeout` without its context manager, at a third of its cost.

Every budgeted call sets one, and so does every message of a stream; between the other work of a handler
`asyncio.timeout` takes 12 us.
"""

import asyncio
from collections.abc import Awaitable
from typing import Any, Self

from budget.cancel import CancelWatch


async def in_time(work: Awaitable[object], *, seconds: float | None) -> bool:
    """Awaits `work`; False when `seconds` (above 0; None: no end) were over first and it was cancelled.

    A cancel from outside always wins, also over ours.
    """
    watch = CancelWatch.here()
    timer = Timer.start(watch.task, seconds)
    ended = False
    try:
        await work
        ended = True
    except asyncio.CancelledError:
        if not timer.expired:
            raise
    finally:
        timer.stop()
    watch.raise_if_cancelled()
    return ended


class Timer:
    """Cancels a task when its time is over, unless it is stopped before."""

    __slots__ = ("_handle", "_task", "expired")

    def __init__(self, task: "asyncio.Task[Any]", seconds: float | None) -> None:
        self.expired = False
        self._task = task
        self._handle: asyncio.TimerHandle | None = None
        if seconds is not None:
            self._handle = task.get_loop().call_later(seconds, self._expire)

    @classmethod
    def start(cls, task: "asyncio.Task[Any]", seconds: float | None) -> Self:
        """Starts one; None for a time without an end.

        `seconds` are above 0. Must run in the task itself, whose `stop` has to follow in every ending.
        """
        return cls(task, seconds)

    def stop(self) -> None:
        """Ends it. When it has expired, the cancel that it asked for is taken back (`Task.uncancel`): the
        CancelledError that came of it is the caller's to turn into something else."""
        if self._handle is not None:
            self._handle.cancel()
        if self.expired:
            self._task.uncancel()

    def _expire(self) -> None:
        self.expired = True
        self._task.cancel()
