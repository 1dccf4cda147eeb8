"""How a run is told to stop in the middle of a wait."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

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
        self._timer: asyncio.Timeout | None = None

    def order(self, stop: Stop) -> None:
        """Ends the present block, if there is one. On the loop's own thread only."""
        if self.stop is not None:
            return
        self.stop = stop
        if self._timer is not None:
            self._timer.reschedule(asyncio.get_running_loop().time())

    @asynccontextmanager
    async def guard(self) -> AsyncIterator[None]:
        """Raises Interrupted when the run is told to stop before the block has ended."""
        if self.stop is not None:
            raise Interrupted(self.stop)
        timer = asyncio.timeout(None)
        try:
            async with timer:
                self._timer = timer
                try:
                    yield
                finally:
                    self._timer = None
        except TimeoutError:
            if timer.expired() and self.stop is not None:
                raise Interrupted(self.stop) from None
            raise
