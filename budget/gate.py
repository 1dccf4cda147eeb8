"""The queue before a pool: first come, first served, but the dead are not served.

A pool hands a free connection to whoever waits longest, even when that caller's time is over: under
overload all connections then go to callers that can no longer use them. userver skips them, and so does
this gate. Those who are nearly dead are hardly better: what they begin is cut and has to be cancelled. So
when the queue stands, which means that it has not been empty for a while, the newest is served first
(adaptive LIFO: Maurer, "Fail at Scale", ACM Queue 2015; the while is CoDel's interval, RFC 8289).
"""

import asyncio
from collections import deque
from typing import Final

from budget.core import Budget

STANDING: Final = 0.1
"""Seconds after which a queue that was never empty is no burst."""

_Waiter = tuple[asyncio.Future[None], Budget]


class Gate:
    """`slots` may be inside at once; whoever enters must `leave`."""

    def __init__(self, slots: int) -> None:
        self.slots: Final = slots
        self._free = slots
        self._waiters: deque[_Waiter] = deque()
        self._queued_since = 0.0
        self.waits = 0
        """How many had to wait since the start."""
        self.waited = 0.0
        """For how long, all together, in seconds of their budgets' clocks."""

    @property
    def inside(self) -> int:
        """How many hold a slot."""
        return self.slots - self._free

    @property
    def waiting(self) -> int:
        """How many wait and could still be served."""
        return sum(1 for waiter in self._waiters if _alive(waiter))

    async def enter(self, budget: Budget) -> None:
        """Waits for a slot. Sets no timer: the caller's own spend ends the wait; `budget` says who is
        dead."""
        if self._free and not self._waiters:
            self._free -= 1
            return
        waiter = (asyncio.get_running_loop().create_future(), budget)
        if not self._waiters:
            self._queued_since = budget.clock()
        self._waiters.append(waiter)
        began = budget.clock()
        self.waits += 1
        try:
            await waiter[0]
        except asyncio.CancelledError:
            self._withdraw(waiter)
            raise
        finally:
            self.waited += budget.clock() - began

    def leave(self) -> None:
        """Gives the slot to the first waiter who can still use it; to the newest when the queue stands."""
        self._free += 1
        while self._waiters and self._free:
            waiter = self._waiters.pop() if self._stands() else self._waiters.popleft()
            if _alive(waiter):
                self._free -= 1
                waiter[0].set_result(None)

    def _stands(self) -> bool:
        _, budget = self._waiters[0]
        return budget.clock() - self._queued_since > STANDING

    def _withdraw(self, waiter: _Waiter) -> None:
        if waiter in self._waiters:
            self._waiters.remove(waiter)
        elif waiter[0].done() and not waiter[0].cancelled():
            self.leave()  # it was served and cancelled in one tick


def _alive(waiter: _Waiter) -> bool:
    future, budget = waiter
    return not future.done() and budget.remaining() > 0
