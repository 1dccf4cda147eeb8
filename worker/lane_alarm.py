"""What an alert about a closed lane hangs on: a gauge, a counter and one line of the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog
from opentelemetry import metrics

from jobs_store.states import ErrorClass

if TYPE_CHECKING:
    from jobs_store.decisions import Park

_log = structlog.stdlib.get_logger("hourglass.worker")


class LaneAlarm:
    """Raised when a provider's answer parks a lane, cleared when the lane answers again.

    Not when the parking ends: a rotated key is refused once more after each, and an alert would come and go.
    One line of the log for the whole of it: an ERROR where our account is refused, for somebody has to mend
    it; a WARNING where the provider is busy, for that passes.
    """

    def __init__(self, meter: metrics.Meter | None = None) -> None:
        meter = meter or metrics.get_meter("hourglass.worker")
        self._raised: dict[str, str] = {}
        """Causes by lane."""
        self._parked = meter.create_up_down_counter(
            "hourglass.worker.lanes.parked",
            unit="{lane}",
            description="Lanes that a provider's answer has parked and that have not answered since",
        )
        self._parkings = meter.create_counter(
            "hourglass.worker.lanes.parkings",
            unit="{parking}",
            description="Answers of providers that parked a lane",
        )

    def parked(self, lane: str, park: Park, error_class: ErrorClass | None) -> None:
        """A provider's answer parks the lane."""
        self._parkings.add(1, {"lane": lane, "cause": park.cause})
        if self._raised.get(lane) == park.cause:
            return
        self._clear(lane)
        self._raised[lane] = park.cause
        self._parked.add(1, {"lane": lane, "cause": park.cause})
        ours = error_class is ErrorClass.PLATFORM
        log = _log.error if ours else _log.warning
        log(
            "lane parked: mend the account, then resume the lane" if ours else "lane parked",
            lane=lane,
            cause=park.cause,
            seconds=park.duration,
        )

    def answered(self, lane: str) -> None:
        """A provider gave a whole answer in the lane."""
        if self._clear(lane):
            _log.info("lane answers again", lane=lane)

    def _clear(self, lane: str) -> bool:
        cause = self._raised.pop(lane, None)
        if cause is not None:
            self._parked.add(-1, {"lane": lane, "cause": cause})
        return cause is not None
