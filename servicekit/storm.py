"""Bounds the log lines of a storm: when a dependency is away, thousands of requests end alike.

Each kind of line has a token bucket of its own. What is left out is counted, and the count is told: in the
next line of the kind, or, when none follows, in a line of its own as soon as the kind is quiet.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

Kind = TypeVar("Kind", bound=Hashable)

BURST: Final = 20.0
"""Lines of one kind that pass at once."""
RATE: Final = 5.0
"""Lines of one kind a second after that."""
QUIET: Final = 2.0
"""Seconds without a line of a kind, after which its count is told."""


@dataclass(slots=True)
class _Bucket:
    tokens: float
    updated: float
    left_out: int = 0

    def take(self, now: float) -> bool:
        self.tokens = min(BURST, self.tokens + (now - self.updated) * RATE)
        self.updated = now
        if self.tokens < 1:
            self.left_out += 1
            return False
        self.tokens -= 1
        return True


class StormLimit(Generic[Kind]):
    """Decides which lines pass. Kinds are few: the server's own names, nothing that a caller can invent."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._buckets: dict[Kind, _Bucket] = {}

    def __len__(self) -> int:
        """How many kinds are watched."""
        return len(self._buckets)

    def passes(self, kind: Kind) -> bool:
        """Whether to write a line of this kind now."""
        now = self._clock()
        bucket = self._buckets.get(kind)
        if bucket is None:
            bucket = self._buckets[kind] = _Bucket(BURST, now)
        return bucket.take(now)

    def left_out(self, kind: Kind) -> int:
        """How many of this kind were left out since that was last asked."""
        bucket = self._buckets[kind]
        left_out, bucket.left_out = bucket.left_out, 0
        return left_out

    def over(self, *, after: float = QUIET) -> list[tuple[Kind, int]]:
        """The kinds that have been quiet for `after` seconds and what was left out of each, told once."""
        now = self._clock()
        quiet = [kind for kind, bucket in self._buckets.items() if now - bucket.updated >= after]
        counts = [(kind, self._buckets.pop(kind).left_out) for kind in quiet]
        return [(kind, count) for kind, count in counts if count]
