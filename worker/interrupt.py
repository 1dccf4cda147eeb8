"""How a run is told to stop in the middle of a wait."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType

    from worker.outcome import Stop


class Interrupted(Exception):
    """The run was told to stop."""

    def __init__(self, stop: Stop) -> None:
        super().__init__(stop)
        self.stop = stop


class Interrupt:
    """Ends the block that it guards; the first order to stop counts, and later blocks do not even begin.

    A timer without an end, pulled when needed: unlike a cancel of the task it cannot be mistaken for one.
    """

    def __init__(self) -> None:
        self.stop: Stop | None = None
        self.timer: asyncio.Timeout | None = None
        """Of the present block."""

    def order(self, stop: Stop) -> None:
        """Ends the present block, if there is one. On the loop's own thread only."""
        if self.stop is not None:
            return
        self.stop = stop
        if self.timer is not None:
            self.timer.reschedule(asyncio.get_running_loop().time())

    def guard(self) -> AbstractAsyncContextManager[None]:
        """Raises Interrupted when the run is told to stop before the block has ended."""
        return _Guard(self)


class _Guard:
    """The block of `Interrupt.guard`."""

    __slots__ = ("_interrupt", "_timer")

    def __init__(self, interrupt: Interrupt) -> None:
        self._interrupt = interrupt
        self._timer = asyncio.timeout(None)

    async def __aenter__(self) -> None:
        if self._interrupt.stop is not None:
            raise Interrupted(self._interrupt.stop)
        await self._timer.__aenter__()
        self._interrupt.timer = self._timer

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._interrupt.timer = None
        try:
            await self._timer.__aexit__(kind, error, trace)
        except TimeoutError:
            if self._interrupt.stop is None:
                raise
            raise Interrupted(self._interrupt.stop) from None
