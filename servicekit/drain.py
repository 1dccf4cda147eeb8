"""The end of a server, as its requests see it: long streams end at once, the rest gets the grace."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from budget.cancel import CancelWatch
from budget.core import Budget
from budget.timer import Timer
from servicekit.endings import Cut

Result = TypeVar("Result")


class Scope:
    """Our own timer around one handler. It ends the handler early enough for us to answer before core does.

    Half of the reserve belongs to the handler, which turns a dependency's timeout into an answer; the other
    half is for sending it.
    """

    def __init__(self, budget: Budget, *, resumable: bool) -> None:
        self.resumable = resumable
        self._budget = budget
        self._timer: Timer | None = None
        self._active = False
        self._drained = False

    async def limit(self, work: Awaitable[Result]) -> Result:
        """Awaits `work`, and cancels it when the time is over; `cut` says so. TimeoutError leaves it then.

        The caller makes sure that something can be spent: a timer of zero would swallow a pending cancel.
        """
        watch = CancelWatch.here()
        self._timer = timer = Timer.start(watch.task, self._time())
        self._active = True
        try:
            return await work
        except asyncio.CancelledError as error:
            timer.stop()
            if not timer.expired or watch.cancelled:
                raise
            raise TimeoutError from error
        finally:
            self._active = False
            timer.stop()

    def _time(self) -> float | None:
        if self._budget.unbounded:
            return None
        return max(self._budget.remaining() - self._budget.reserve / 2, 1e-6)

    def drain(self) -> None:
        """Ends the body now, because the server does."""
        if self._active and self._timer is not None and not self._timer.expired:
            self._drained = True
            self._timer.end_now()

    @property
    def cut(self) -> Cut | None:
        """Why the timer ended the body; None when it did not."""
        if self._timer is None or not self._timer.expired:
            return None
        return Cut.DRAIN if self._drained else Cut.BUDGET


class Drain:
    """What is in flight, and how far the server's end has come."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.stopping = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._scopes: set[Scope] = set()

    @property
    def in_flight(self) -> int:
        """Requests that have not been answered yet."""
        return len(self._scopes)

    def enter(self, scope: Scope) -> None:
        """Counts a request in; `leave` must follow."""
        self._scopes.add(scope)
        self._idle.clear()

    def leave(self, scope: Scope) -> None:
        """Counts it out."""
        self._scopes.discard(scope)
        if not self._scopes:
            self._idle.set()

    def begin(self) -> None:
        """No new requests; resumable streams end, everybody else is told by `started`."""
        self.started.set()
        for scope in tuple(self._scopes):
            if scope.resumable:
                scope.drain()

    def cut(self) -> None:
        """The grace is nearly over: ends what is left, while it can still be answered."""
        for scope in tuple(self._scopes):
            scope.drain()

    async def idle(self, within: float) -> bool:
        """Waits at most `within` seconds until nothing is in flight."""
        if within <= 0:
            return self._idle.is_set()
        try:
            async with asyncio.timeout(within):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True
