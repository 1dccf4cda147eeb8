"""What the last verification of the whole database found, as gauges for alerts."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from opentelemetry import metrics
from opentelemetry.metrics import Observation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from opentelemetry.metrics import CallbackOptions


class VerificationMetrics:
    """Of verifications of everything alone: who asks for a part sees its answer. clock: Unix seconds."""

    def __init__(self, meter: metrics.Meter | None = None, *, clock: Callable[[], float] = time.time) -> None:
        meter = meter or metrics.get_meter("hourglass.verify")
        self._clock = clock
        self._ended: float | None = None
        self._found: Counter[str] = Counter()
        meter.create_observable_gauge(
            "hourglass.verify.end_time",
            [self._end_time],
            unit="s",
            description="When the last verification of the whole database ended, in Unix time",
        )
        meter.create_observable_gauge(
            "hourglass.verify.violations",
            [self._violations],
            unit="{violation}",
            description="What it found, by invariant; UNCHECKED: rows that it could not look at",
        )

    def ended(self, found: Counter[str]) -> None:
        """One has come to its end; `found` has every invariant, also those that hold."""
        self._ended, self._found = self._clock(), found

    def _end_time(self, _: CallbackOptions) -> Iterable[Observation]:
        if self._ended is not None:
            yield Observation(self._ended)

    def _violations(self, _: CallbackOptions) -> Iterable[Observation]:
        for invariant, count in self._found.items():
            yield Observation(count, {"invariant": invariant})
