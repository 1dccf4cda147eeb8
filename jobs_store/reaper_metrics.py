"""What a reaping process sees of the whole database, as gauges, for alerts that nothing else raises."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry import metrics
from opentelemetry.metrics import Observation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from opentelemetry.metrics import CallbackOptions

    from jobs_store.reaper_loop import Round


class ReaperMetrics:
    """Shows the last round: what is collected was measured there. A round that broke off shows nothing.

    hourglass.reaper.oldest_expired_lease: a healthy system stays below two rounds, whatever was killed.
    hourglass.postgres.oldest_snapshot_age, hourglass.postgres.oldest_xmin_age: a transaction that stays open
        keeps vacuum from what claims leave behind, and claims get slower.
    """

    def __init__(self, meter: metrics.Meter | None = None) -> None:
        self._round: Round | None = None
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

    def observe(self, finished: Round) -> None:
        """A round is over."""
        self._round = finished

    def _showing(
        self, value: Callable[[Round], float | None]
    ) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def show(_: CallbackOptions) -> Iterable[Observation]:
            last = self._round
            found = value(last) if last is not None and not last.reason else None
            if found is not None:
                yield Observation(found)

        return show
