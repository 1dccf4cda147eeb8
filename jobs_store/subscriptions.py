"""Who in this process waits for which wake-up.

A subscription is one flag, however many signals arrive: it cannot grow. It lives as long as its `with` block.
"""

import asyncio
import math
from collections.abc import Iterator
from contextlib import contextmanager

from budget.core import Budget
from jobs_store.signals import Signal


class Wakeup:
    """A flag that one task waits for."""

    def __init__(self) -> None:
        self._raised = asyncio.Event()

    def wake(self) -> None:
        """Ends the present wait, or the next one if nobody waits. Only on the event loop's thread."""
        self._raised.set()

    async def wait(self, budget: Budget) -> bool:
        """True as soon as there was a signal since the last wait, False once `budget` has no more to spend.

        Look at the store either way: a signal may come for nothing, and may get lost.
        """
        seconds = budget.spendable()
        if not self._raised.is_set() and seconds > 0:
            await self._wait_at_most(seconds)
        woken = self._raised.is_set()
        self._raised.clear()
        return woken

    async def _wait_at_most(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(None if math.isinf(seconds) else seconds):
                await self._raised.wait()
        except TimeoutError:
            pass


class Subscriptions:
    """All wake-ups that are waited for. Without a `Listener` nothing ever signals, and waits just end."""

    def __init__(self) -> None:
        self._wakeups: dict[Signal, set[Wakeup]] = {}

    @contextmanager
    def subscribe(self, *signals: Signal) -> Iterator[Wakeup]:
        """A wake-up for any of the signals, for the length of the block.

        Subscribe, then read, then wait, then read again: then no change falls between.
        """
        wakeup = Wakeup()
        for signal in signals:
            self._wakeups.setdefault(signal, set()).add(wakeup)
        try:
            yield wakeup
        finally:
            for signal in set(signals):
                self._forget(signal, wakeup)

    def wake(self, signal: Signal) -> None:
        """Wakes everyone who waits for this signal."""
        for wakeup in self._wakeups.get(signal, ()):
            wakeup.wake()

    def wake_all(self) -> None:
        """Wakes everyone: signals may have been missed, so look again."""
        for wakeups in self._wakeups.values():
            for wakeup in wakeups:
                wakeup.wake()

    def __len__(self) -> int:
        """How many different signals are waited for."""
        return len(self._wakeups)

    def _forget(self, signal: Signal, wakeup: Wakeup) -> None:
        wakeups = self._wakeups[signal]
        wakeups.discard(wakeup)
        if not wakeups:
            del self._wakeups[signal]
