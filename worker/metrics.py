"""What operators count about runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog
from opentelemetry import metrics

from jobs_store.states import JobState

if TYPE_CHECKING:
    from jobs_store.attempts import AttemptEnd
    from jobs_store.runs import Claimed
    from jobs_store.states import Cause

_log = structlog.stdlib.get_logger("hourglass.worker")


class RunMetrics:
    """Counts ends of runs. One that did not go well is a line in the log too."""

    def __init__(self, meter: metrics.Meter | None = None) -> None:
        meter = meter or metrics.get_meter("hourglass.worker")
        self._ended = meter.create_counter(
            "hourglass.worker.runs.ended", unit="{run}", description="Runs whose ending was written"
        )
        self._stale = meter.create_counter(
            "hourglass.worker.stale_results_rejected",
            unit="{result}",
            description="Whole answers that were refused because the run had lost its lease",
        )
        self._given_up = meter.create_counter(
            "hourglass.worker.endings.given_up",
            unit="{run}",
            description="Runs whose ending could not be written in time",
        )

    def ended(self, run: Claimed, attempt: AttemptEnd, *, state: JobState, cause: Cause) -> None:
        """A run ended, and its job is in `state` now."""
        self._ended.add(1, {"lane": run.lane, "outcome": attempt.outcome, "state": state, "cause": cause})
        if state is JobState.SUCCEEDED:
            return
        _log.info(
            "run ended",
            tenant=run.tenant,
            job=str(run.job_id),
            attempt=run.attempt_number,
            outcome=attempt.outcome,
            attempt_cause=attempt.cause,
            state=state,
            cause=cause,
        )

    def stale_result(self, run: Claimed) -> None:
        """A whole answer came to nothing."""
        self._stale.add(1, {"lane": run.lane})
        _log.warning(
            "stale result rejected", tenant=run.tenant, job=str(run.job_id), attempt=run.attempt_number
        )

    def given_up(self, run: Claimed) -> None:
        """An ending was not written."""
        self._given_up.add(1, {"lane": run.lane})
