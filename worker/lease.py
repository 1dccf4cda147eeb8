"""The leases of a process's runs, shared between the main loop and the thread that renews them."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jobs_store.endings import Verdict
    from jobs_store.runs import Held


@dataclass(slots=True, kw_only=True, eq=False)
class Lease:
    """One run's right to its row.

    proved_at: monotonic instant before the send of the last write that found the token on the row. A lease is
        counted from there, because nobody knows how long the answer took.
    tell: hands a verdict to the run, from any thread.
    """

    held: Held
    tell: Callable[[Verdict], None]
    proved_at: float = field(default_factory=time.monotonic)

    def prove(self, sent_at: float) -> None:
        """The token stood on the row at some time after `sent_at`."""
        self.proved_at = max(self.proved_at, sent_at)

    def age(self) -> float:
        """Seconds since the lease was proved."""
        return time.monotonic() - self.proved_at


class Leases:
    """All leases of this process. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._leases: set[Lease] = set()
        self._urgent: set[Lease] = set()
        self._wake: Callable[[], None] = _nobody

    def add(self, lease: Lease) -> None:
        """A run began."""
        with self._lock:
            self._leases.add(lease)

    def remove(self, lease: Lease) -> None:
        """A run ended."""
        with self._lock:
            self._leases.discard(lease)
            self._urgent.discard(lease)

    def all(self) -> list[Lease]:
        """Every lease."""
        with self._lock:
            return list(self._leases)

    def ask(self, *leases: Lease) -> None:
        """Has these renewed at once: their rows may tell something new."""
        self.put_off(leases)
        with self._lock:
            wake = self._wake
        wake()

    def put_off(self, leases: Iterable[Lease]) -> None:
        """Has these renewed in the next round, whenever that is."""
        with self._lock:
            self._urgent.update(self._leases.intersection(leases))

    def take_urgent(self) -> list[Lease]:
        """Those that were asked for or put off since the last time."""
        with self._lock:
            urgent, self._urgent = list(self._urgent), set()
            return urgent

    def wake_by(self, wake: Callable[[], None]) -> None:
        """What `ask` calls, from whatever thread it is on."""
        with self._lock:
            self._wake = wake

    def since_proof(self) -> float:
        """Seconds since any of them was proved: whether the process can renew. 0 when there is none."""
        return min((lease.age() for lease in self.all()), default=0.0)


def _nobody() -> None:
    """The renewal has not begun."""
