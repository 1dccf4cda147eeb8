"""How long to wait until the store is read again, when no wake-up comes: rising, with jitter."""

from dataclasses import dataclass
from typing import Final

from jobs_store.decisions import Jitter

_SPREAD: Final = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Seconds between two reads while nothing happens: from `first`, doubling, to `longest`."""

    jitter: Jitter
    first: float = 0.05
    longest: float = 1.0


class Pauses:
    """The pauses of one wait."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._next = pace.first

    def reset(self) -> None:
        """Something happened: look again soon."""
        self._next = self._pace.first

    @property
    def settled(self) -> bool:
        """Whether they have risen to the longest."""
        return self._next >= self._pace.longest

    def take(self) -> float:
        """Seconds to wait now. The jitter only shortens, so that nobody waits for longer than is promised."""
        seconds = self._next
        self._next = min(self._pace.longest, 2 * seconds)
        return seconds - self._pace.jitter(_SPREAD * seconds)
