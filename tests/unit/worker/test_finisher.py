"""How an ending is written: once, however often it has to be tried, and whoever hears of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from budget.errors import CommitOutcomeUnknown, DatabaseTimeout, DatabaseUnavailable
from jobs_store.decisions import RetryTiming
from jobs_store.endings import Ended, Verdict
from jobs_store.pacing import Backoff
from jobs_store.rate_card import Usage
from jobs_store.runs import Held
from jobs_store.states import AttemptOutcome, FinishReason
from tests.integration.servicekit.metrics import counted
from tests.unit.worker.claimed import claimed
from worker.active import Run
from worker.event_log import EventLog, LogEnd, LogLimits
from worker.finisher import Finisher, FinishRules
from worker.lane_alarm import LaneAlarm
from worker.lease import Lease
from worker.metrics import RunMetrics
from worker.outcome import Answered
from worker.progress import Progress

if TYPE_CHECKING:
    from budget.core import Budget
    from jobs_store.attempts import AttemptEnd
    from jobs_store.endings import Finish
    from jobs_store.runs import RunStore
    from worker.flusher import Flusher
    from worker.group_commit import GroupCommit

ANSWER = Answered(
    finish_reason=FinishReason.STOP,
    provider_request_id="r",
    usage=Usage(input_tokens=3, output_tokens=5),
)
LOST = Ended(verdict=Verdict.LEASE_LOST)


class Finishes:
    """A group commit that answers as told."""

    def __init__(self, *answers: Ended | Exception) -> None:
        self._answers = list(answers)

    async def submit(self, item: Finish) -> Ended:
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Store:
    """What stands on the row of the run's attempt, and what is told of its cost."""

    def __init__(self, stored: AttemptOutcome | None) -> None:
        self.costs: list[AttemptEnd] = []
        self._stored = stored

    async def outcome_of(self, _run: Held, _number: int, *, budget: Budget) -> AttemptOutcome | None:
        assert budget.remaining() > 0
        return self._stored

    async def record_lost_attempt(self, _run: Held, _number: int, end: AttemptEnd, *, budget: Budget) -> bool:
        assert budget.remaining() > 0
        self.costs.append(end)
        return True


class NoFlusher:
    """Nothing is under way."""

    async def settle(self, run: Run) -> None:
        """At once."""


def _run() -> Run:
    job = claimed()
    lease = Lease(held=Held(tenant=job.tenant, job_id=job.job_id, token=job.token), tell=lambda _: None)
    log = EventLog(job, worker_id="w", limits=LogLimits())
    return Run(claimed=job, log=log, lease=lease, progress=Progress(log, window=0.0, written=lambda: None))


def _finisher(store: Store, finishes: Finishes, *, metrics: RunMetrics | None = None) -> Finisher:
    rules = FinishRules(
        timing=RetryTiming(), jitter=lambda _: 0.0, backoff=Backoff(jitter=lambda _: 0.0), patience=5.0
    )
    return Finisher(
        cast("RunStore", store),
        cast("GroupCommit[Any, Any]", finishes),
        cast("GroupCommit[Any, Any]", finishes),
        flusher=cast("Flusher", NoFlusher()),
        notify=lambda _: None,
        metrics=metrics or RunMetrics(),
        alarm=LaneAlarm(),
        rules=rules,
    )


@pytest.mark.parametrize("lost", [CommitOutcomeUnknown, DatabaseUnavailable, DatabaseTimeout])
async def test_an_ending_whose_answer_was_lost_is_known_again_by_its_own_attempt(lost: Any) -> None:
    """The statement was its own transaction: whatever cut off its answer, it may hold."""
    run, store = _run(), Store(AttemptOutcome.SUCCEEDED)
    await _finisher(store, Finishes(lost(dependency="postgres", method="finish_jobs"), LOST)).end(run, ANSWER)
    assert LogEnd.COMPLETE is run.log.end
    assert [] == store.costs


async def test_an_ending_that_its_batch_wrote_and_lost_is_known_too() -> None:
    """The group commit repeats a batch by itself, so the run may hear of the second try only."""
    run, store = _run(), Store(AttemptOutcome.SUCCEEDED)
    await _finisher(store, Finishes(LOST)).end(run, ANSWER)
    assert LogEnd.COMPLETE is run.log.end
    assert [] == store.costs


async def test_a_takeover_is_no_ending_of_the_run() -> None:
    run, store = _run(), Store(AttemptOutcome.UNKNOWN)
    await _finisher(store, Finishes(LOST)).end(run, ANSWER)
    assert LogEnd.NOT_OWNER is run.log.end
    assert [AttemptOutcome.SUCCEEDED] == [cost.outcome for cost in store.costs]


async def test_an_acceptance_whose_answer_was_lost_is_counted_once() -> None:
    reader = InMemoryMetricReader()
    meter = MeterProvider([reader], shutdown_on_exit=False).get_meter("t")
    lost = CommitOutcomeUnknown(dependency="postgres", method="finish_jobs")
    finisher = _finisher(Store(AttemptOutcome.SUCCEEDED), Finishes(lost, LOST), metrics=RunMetrics(meter))
    await finisher.end(_run(), ANSWER)
    assert 1 == counted(reader, "hourglass.worker.runs.ended", state="SUCCEEDED")


async def test_a_run_that_lost_its_job_counts_no_ending() -> None:
    reader = InMemoryMetricReader()
    meter = MeterProvider([reader], shutdown_on_exit=False).get_meter("t")
    await _finisher(Store(AttemptOutcome.UNKNOWN), Finishes(LOST), metrics=RunMetrics(meter)).end(
        _run(), ANSWER
    )
    assert 0 == counted(reader, "hourglass.worker.runs.ended")
    assert 1 == counted(reader, "hourglass.worker.stale_results_rejected")
