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
    has lasted too long, instead of being set and taken back for each. `close` ends the timer.

    A wait is a call of `in_time`, or, where a coroutine more a wait is too much, a block:

        with waits.time_limit(seconds=5.0):
            await work
        if waits.late: ...
    """

    __slots__ = ("_before", "_due", "_expired", "_handle", "_look_at", "_loop", "_task", "late")

    def __init__(self, task: "asyncio.Task[Any]") -> None:
        self.late = False
        """Whether the last wait was cancelled because its time was over."""
        self._task = task
        self._loop = task.get_loop()
        self._handle: asyncio.TimerHandle | None = None
        self._look_at = math.inf
        self._due = math.inf
        self._before = 0
        self._expired = False

    @classmethod
    def here(cls) -> Self:
        """For the running task."""
        return cls(CancelWatch.here().task)

    def close(self) -> None:
        """After the last wait."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle, self._look_at = None, math.inf

    async def in_time(self, work: Awaitable[object], *, seconds: float) -> bool:
        """As the function `in_time` does, in this task."""
        with self.time_limit(seconds=seconds):
            await work
        return not self.late

    def time_limit(self, *, seconds: float) -> Self:
        """A block of as many seconds at most. It is left early, and `late` then, when they are over first; a
        cancel from outside always wins."""
        self.late = False
        self._before = self._task.cancelling()
        self._due = self._loop.time() + seconds
        if self._due < self._look_at:
            self.close()
            self._handle, self._look_at = self._loop.call_at(self._due, self._look), self._due
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        self._due = math.inf
        expired, self._expired = self._expired, False
        if expired:
            self._task.uncancel()
        cancelled = self._task.cancelling() > self._before
        if kind is None:
            if cancelled:
                raise asyncio.CancelledError
            return False
        self.late = expired and not cancelled and issubclass(kind, asyncio.CancelledError)
        return self.late

    def _look(self) -> None:
        due, self._handle, self._look_at = self._due, None, math.inf
        if due <= self._loop.time() + _EARLY:
            self._expired = True
            self._task.cancel()
        elif due < math.inf:
            self._handle, self._look_at = self._loop.call_at(due, self._look), due
