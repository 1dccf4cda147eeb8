"""Timers for the running task that cost less than `asyncio.timeout`, which takes 12 us between other work.

Every budgeted call sets one, every message of a stream is watched by one.
"""

import asyncio
import math
from collections.abc import Awaitable
from typing import Any, Final, Self

from budget.cancel import CancelWatch

_EARLY: Final = 1e-3
"""Seconds by which a loop may call early."""


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

    __slots__ = ("_handle", "_stopped", "_task", "expired")

    def __init__(self, task: "asyncio.Task[Any]", seconds: float | None) -> None:
        self.expired = self._stopped = False
        self._task = task
        self._handle: asyncio.Handle | None = None
        if seconds is not None:
            self._handle = task.get_loop().call_later(seconds, self._expire)

    @classmethod
    def start(cls, task: "asyncio.Task[Any]", seconds: float | None) -> Self:
        """Starts one; None for a time without an end.

        `seconds` are above 0. Must run in the task itself, whose `stop` has to follow in every ending.
        """
        return cls(task, seconds)

    def stop(self) -> None:
        """Ends it, once. If it has expired, the cancel that it asked for is taken back (`Task.uncancel`); the
        CancelledError that came of it is the caller's to turn into something else."""
        if self._stopped:
            return
        self._stopped = True
        if self._handle is not None:
            self._handle.cancel()
        if self.expired:
            self._task.uncancel()

    def end_now(self) -> None:
        """Its time is over as soon as the loop comes to it, whatever it was."""
        if not self.expired:
            if self._handle is not None:
                self._handle.cancel()
            self._handle = self._task.get_loop().call_soon(self._expire)

    def _expire(self) -> None:
        self.expired = True
        self._task.cancel()


class Waits:
    """Bounds many waits of one task, one after the other, with one timer: it looks whether the present wait
    has lasted too long, instead of being set and taken back for each. Leaving its block ends the timer."""

    __slots__ = ("_due", "_expired", "_handle", "_loop", "_task")

    def __init__(self, task: "asyncio.Task[Any]") -> None:
        self._task = task
        self._loop = task.get_loop()
        self._handle: asyncio.TimerHandle | None = None
        self._due = math.inf
        self._expired = False

    @classmethod
    def here(cls) -> Self:
        """For the running task."""
        return cls(CancelWatch.here().task)

    async def in_time(self, work: Awaitable[object], *, seconds: float) -> bool:
        """As the function `in_time` does, in this task."""
        before, ended = self._task.cancelling(), False
        self._begin(seconds)
        try:
            await work
            ended = True
        except asyncio.CancelledError:
            if not self._expired:
                raise
        finally:
            self._end()
        if self._task.cancelling() > before:
            raise asyncio.CancelledError
        return ended

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _begin(self, seconds: float) -> None:
        self._due = self._loop.time() + seconds
        if self._handle is None or self._due < self._handle.when():
            self._stop()
            self._handle = self._loop.call_at(self._due, self._look)

    def _end(self) -> None:
        self._due = math.inf
        if self._expired:
            self._expired = False
            self._task.uncancel()

    def _stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _look(self) -> None:
        due, self._handle = self._due, None
        if due <= self._loop.time() + _EARLY:
            self._expired = True
            self._task.cancel()
        elif due < math.inf:
            self._handle = self._loop.call_at(due, self._look)
