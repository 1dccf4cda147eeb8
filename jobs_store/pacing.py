"""Pauses of background loops."""

import asyncio
from dataclasses import dataclass
from typing import Final

from jobs_store.decisions import Jitter

_SPREAD: Final = 0.25
_MOST_DOUBLINGS: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Pauses in seconds that double from `first` to `longest`, with full jitter (Brooker, 2015)."""

    jitter: Jitter
    first: float = 0.1
    longest: float = 3.0

    def pause(self, failures: int) -> float:
        """Seconds to wait after so many failures in a row."""
        return self.jitter(min(self.longest, self.first * 2.0 ** min(failures, _MOST_DOUBLINGS)))


def within(interval: float, jitter: Jitter) -> float:
    """Between three quarters of `interval` and all of it: processes drift apart, and none is ever late."""
    return interval - jitter(_SPREAD * interval)


async def pause(seconds: float, stop: asyncio.Event) -> None:
    """Waits `seconds`, or until `stop` is set."""
    if seconds <= 0:
        return
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        pass
