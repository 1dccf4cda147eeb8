"""What a reaping process sees of the whole database, as gauges, for alerts that nothing else raises."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from opentelemetry import metrics
from opentelemetry.metrics import Observation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from opentelemetry.metrics import CallbackOptions

    from budget.core import Clock
    from jobs_store.reaper_loop import Round

STALE: Final = 60.0
"""Seconds."""


class ReaperMetrics:
    """Shows the last round: what is collected was measured there. A round that broke off shows nothing, and
    neither does one that is older than `stale` seconds: rounds stop while the database is away.

    hourglass.reaper.oldest_expired_lease: a healthy system stays below two rounds, whatever was killed.
    hourglass.postgres.oldest_snapshot_age, hourglass.postgres.oldest_xmin_age: a transaction that stays open
        keeps vacuum from what claims leave behind, and claims get slower.
    hourglass.reaper.rounds, hourglass.reaper.moved: that somebody reaps, and what it moves.
    """

    def __init__(
        self,
        meter: metrics.Meter | None = None,
        *,
        clock: Clock = time.monotonic,
        stale: float = STALE,
    ) -> None:
        self._round: Round | None = None
        self._clock = clock
        self._stale = stale
        self._at = 0.0
        meter = meter or metrics.get_meter("hourglass.reaper")
        meter.create_observable_gauge(
            "hourglass.reaper.oldest_expired_lease",
            [self._showing(lambda last: last.oldest_lease)],
            unit="s",
            description="For how long the oldest lease has been over that nobody took over before this round",
        )
        meter.create_observable_gauge(
            "hourglass.postgres.oldest_snapshot_age",
            [self._showing(lambda last: last.snapshot.seconds if last.snapshot else None)],
            unit="s",
            description="Age of the oldest transaction that keeps vacuum from removing rows",
        )
        meter.create_observable_gauge(
            "hourglass.postgres.oldest_xmin_age",
            [self._showing(lambda last: last.snapshot.transactions if last.snapshot else None)],
            unit="{transaction}",
            description="Transactions since the oldest snapshot that keeps vacuum from removing rows",
        )

        self._rounds = meter.create_counter(
            "hourglass.reaper.rounds", unit="{round}", description="Rounds, by whether they went well"
        )
        self._moved = meter.create_counter(
            "hourglass.reaper.moved",
            unit="{job}",
            description="Jobs that the reaper moved on, and calls that it settled, by why",
        )

    def observe(self, finished: Round) -> None:
        """A round is over."""
        self._round, self._at = finished, self._clock()
        self._rounds.add(1, {"result": "broken_off" if finished.reason else "ok"})
        moved = {
            "taken_over": finished.taken_over,
            "expired": finished.expired,
            "hold_ended": finished.hold_ended,
            "calls_settled": finished.calls_settled,
        }
        for kind, count in moved.items():
            self._moved.add(count, {"kind": kind})

    def _showing(
        self, value: Callable[[Round], float | None]
    ) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def show(_: CallbackOptions) -> Iterable[Observation]:
            last = self._round
            told = last is not None and not last.reason and self._clock() - self._at <= self._stale
            found = value(last) if last is not None and told else None
            if found is not None:
                yield Observation(found)

        return show
