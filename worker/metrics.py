"""What operators count about runs."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Final

import structlog
from opentelemetry import metrics
from opentelemetry.metrics import Observation

from jobs_store.endings import Ended, Finish, Return, Verdict
from jobs_store.job_metrics import JobMetrics
from jobs_store.lane_labels import LaneLabels
from jobs_store.states import JobState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime

    from opentelemetry.metrics import CallbackOptions

    from jobs_store.attempts import AttemptEnd
    from jobs_store.runs import Claimed
    from worker.slots import Slots

_WAIT_BUCKETS: Final = (0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14400)
_RUN_BUCKETS: Final = (0.5, 1, 2.5, 5, 10, 20, 40, 60, 90, 180, 600)
_TOKEN_BUCKETS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 16, 32)
_log = structlog.stdlib.get_logger("hourglass.worker")


class RunMetrics:
    """Counts and times runs. One that did not go well is a line in the log too."""

    def __init__(self, meter: metrics.Meter | None = None) -> None:
        meter = meter or metrics.get_meter("hourglass.worker")
        self._jobs = JobMetrics()
        self._labels = LaneLabels()
        self._ended = meter.create_counter(
            "hourglass.worker.runs.ended", unit="{run}", description="Runs whose ending was written"
        )
        self._stale = meter.create_counter(
            "hourglass.worker.stale_results_rejected",
            unit="{result}",
            description="Whole answers that were refused because the run had lost its lease",
        )
        self._stale_appends = meter.create_counter(
            "hourglass.worker.stale_appends_rejected",
            unit="{append}",
            description="Events that were refused because the run had lost its lease",
        )
        self._given_up = meter.create_counter(
            "hourglass.worker.endings.given_up",
            unit="{run}",
            description="Runs whose ending could not be written in time",
        )
        self._queue_wait = meter.create_histogram(
            "hourglass.job.queue_wait",
            unit="s",
            description="From when a job could be claimed until it was",
            explicit_bucket_boundaries_advisory=_WAIT_BUCKETS,
        )
        self._run_time = meter.create_histogram(
            "hourglass.job.run_time",
            unit="s",
            description="From a claim to the commit of its run's ending",
            explicit_bucket_boundaries_advisory=_RUN_BUCKETS,
        )
        self._first_token = meter.create_histogram(
            "hourglass.provider.time_to_first_token",
            unit="s",
            description="From the send to the first piece of the answer",
            explicit_bucket_boundaries_advisory=_TOKEN_BUCKETS,
        )

    def claimed(self, run: Claimed) -> None:
        """A job was claimed. What may go wrong with it begins at 0, so that a first time is an increase."""
        for counter in (self._stale, self._stale_appends, self._given_up):
            counter.add(0, {"lane": self._labels.named(run.lane)})
        if run.ready_time is not None:
            waited = (run.claim_time - run.ready_time).total_seconds()
            self._queue_wait.record(max(0.0, waited), self._labels.of(run.lane))

    def ended(
        self, run: Claimed, write: Finish | Return, result: Ended, *, send_time: datetime | None = None
    ) -> None:
        """A run's ending was committed. send_time: when its provider was called, if this process did that."""
        attempt = attempt_of(write)
        self._jobs.written([(write, result)])
        self._time(run, attempt, result, send_time)
        labels = {
            "lane": self._labels.named(run.lane),
            "outcome": attempt.outcome,
            "state": write.state,
            "cause": write.cause,
        }
        self._ended.add(1, labels)
        if write.state is not JobState.SUCCEEDED:
            _log_end(run, attempt, write)

    def found_to_hold(self, run: Claimed, write: Finish | Return) -> None:
        """An ending whose answer was lost holds; what it captured is its charge, as far as anybody here
        knows."""
        result = Ended(
            verdict=Verdict.OK,
            lane=run.lane,
            captured=write.charge if isinstance(write, Finish) else Decimal(0),
            earlier_attempts=run.tally.counted_attempts,
        )
        self.ended(run, write, result)

    def late_cost(self, run: Claimed, attempt: AttemptEnd) -> None:
        """A run that had lost its lease wrote what its call cost."""
        self._jobs.late_cost(run.lane, attempt)

    def stale_result(self, run: Claimed) -> None:
        """A whole answer came to nothing."""
        self._stale.add(1, {"lane": self._labels.named(run.lane)})
        _log.warning(
            "stale result rejected", tenant=run.tenant, job=str(run.job_id), attempt=run.attempt_number
        )

    def stale_append(self, run: Claimed) -> None:
        """Events came to nothing."""
        self._stale_appends.add(1, {"lane": self._labels.named(run.lane)})

    def given_up(self, run: Claimed) -> None:
        """An ending was not written."""
        self._given_up.add(1, {"lane": self._labels.named(run.lane)})

    def _time(self, run: Claimed, attempt: AttemptEnd, result: Ended, send_time: datetime | None) -> None:
        labels = self._labels.of(run.lane)
        if result.time is not None:
            took = (result.time - run.claim_time).total_seconds()
            self._run_time.record(max(0.0, took), {**labels, "outcome": attempt.outcome})
        if send_time is not None and attempt.first_token_time is not None:
            waited = (attempt.first_token_time - send_time).total_seconds()
            self._first_token.record(max(0.0, waited), labels)


def observe_worker(
    slots: Mapping[str, Slots], since_renewal: Callable[[], float], meter: metrics.Meter | None = None
) -> None:
    """Makes the instruments of a worker's slots, by what they are for, and of its leases."""
    meter = meter or metrics.get_meter("hourglass.worker")

    def used(_: CallbackOptions) -> Iterable[Observation]:
        return (Observation(one.count - one.free, {"work": work}) for work, one in slots.items())

    def most(_: CallbackOptions) -> Iterable[Observation]:
        return (Observation(one.count, {"work": work}) for work, one in slots.items())

    meter.create_observable_up_down_counter(
        "hourglass.worker.slots.used", [used], unit="{slot}", description="Runs and short calls going on"
    )
    meter.create_observable_up_down_counter(
        "hourglass.worker.slots.max", [most], unit="{slot}", description="How many there may be"
    )
    meter.create_observable_gauge(
        "hourglass.worker.leases.unproved",
        [lambda _: [Observation(since_renewal())]],
        unit="s",
        description="Since the last write that proved a lease of this worker; 0 without a run",
    )


def attempt_of(write: Finish | Return) -> AttemptEnd:
    """The attempt that a run's ending ends."""
    assert write.attempt is not None, "a run's ending has its attempt"
    return write.attempt


def _log_end(run: Claimed, attempt: AttemptEnd, write: Finish | Return) -> None:
    _log.info(
        "run ended",
        tenant=run.tenant,
        job=str(run.job_id),
        attempt=run.attempt_number,
        outcome=attempt.outcome,
        attempt_cause=attempt.cause,
        state=write.state,
        cause=write.cause,
    )
