"""Who in this process waits for which wake-up.

A subscription is one flag, however many signals arrive: it cannot grow. It lives as long as its `with` block.
"""

import asyncio
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from budget.core import Budget
from budget.timer import in_time
from jobs_store.signals import Channel, Signal

Wake = Callable[[], None]


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
            await in_time(self._raised.wait(), seconds=None if math.isinf(seconds) else seconds)
        woken = self._raised.is_set()
        self._raised.clear()
        return woken


class Subscriptions:
    """All wake-ups that are waited for. Without a `Listener` nothing ever signals, and waits just end."""

    def __init__(self) -> None:
        self._wakes: dict[Signal, set[Wake]] = {}

    @contextmanager
    def subscribe(self, *signals: Signal) -> Iterator[Wakeup]:
        """A wake-up for any of the signals, for the length of the block.

        Subscribe, then read, then wait, then read again: then no change falls between.
        """
        wakeup = Wakeup()
        with self.calling(wakeup.wake, *signals):
            yield wakeup

    @contextmanager
    def calling(self, wake: Wake, *signals: Signal) -> Iterator[None]:
        """Has `wake` called on any of the signals, for the length of the block. It must not wait or fail."""
        for signal in signals:
            self._wakes.setdefault(signal, set()).add(wake)
        try:
            yield
        finally:
            for signal in set(signals):
                self._forget(signal, wake)

    def wake(self, signal: Signal) -> None:
        """Wakes everyone who waits for this signal."""
        for wake in tuple(self._wakes.get(signal, ())):
            wake()

    def wake_all(self) -> None:
        """Wakes everyone: signals may have been missed, so look again."""
        for wakes in tuple(self._wakes.values()):
            for wake in tuple(wakes):
                wake()

    def waited_for(self, channel: Channel) -> list[Signal]:
        """The different signals of a channel that somebody waits for."""
        return [signal for signal in self._wakes if signal.channel is channel]

    def __len__(self) -> int:
        """How many different signals are waited for."""
        return len(self._wakes)

    def _forget(self, signal: Signal, wake: Wake) -> None:
        wakes = self._wakes[signal]
        wakes.discard(wake)
        if not wakes:
            del self._wakes[signal]
