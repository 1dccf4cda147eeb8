"""What happened in a run: strikes by kind, what broke a promise, and a diary."""

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from tests.torture.kinds import Kind


class Tally:
    """Counts and keeps; written to by everybody in the run."""

    def __init__(self, diary: Path) -> None:
        self.strikes: Counter[Kind] = Counter()
        self.notes: Counter[str] = Counter()
        """What else is worth a number in the report."""
        self.broken: list[str] = []
        """Promises that did not hold."""
        self._started = time.monotonic()
        self._diary: TextIO = diary.open("w", encoding="utf-8", buffering=1)

    @property
    def elapsed(self) -> float:
        """Seconds since the start of the plan."""
        return time.monotonic() - self._started

    def begin(self) -> None:
        """The plan starts now."""
        self._started = time.monotonic()

    def strike(self, kind: Kind, what: str) -> None:
        """A fault took effect."""
        self.strikes[kind] += 1
        self.tell(f"{kind}: {what}")

    def note(self, what: str) -> None:
        """Something else happened that is worth a number."""
        self.notes[what] += 1

    def breach(self, what: str) -> None:
        """A promise was broken: the run has failed."""
        self.broken.append(what)
        self.tell(f"BROKEN: {what}")

    def breaches(self, found: Sequence[str], *, most: int = 20) -> None:
        """Several of one sort."""
        for what in found[:most]:
            self.breach(what)
        if len(found) > most:
            self.breach(f"... and {len(found) - most} more of these")

    def tell(self, what: str) -> None:
        """A line in the diary."""
        self._diary.write(f"{self.elapsed:8.3f} {what}\n")

    def close(self) -> None:
        """No more lines."""
        self._diary.close()
