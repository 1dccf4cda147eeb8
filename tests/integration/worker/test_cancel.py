"""A user's cancel, at every moment of a run."""

from __future__ import annotations

import asyncio
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from jobs_store.cancellation import CancelOutcome
from jobs_store.decisions import charge_of_cancel
from jobs_store.events import EventKind
from jobs_store.states import AttemptOutcome, CostBasis, JobState
from jobs_store.wakeups import cancel_asked
from tests.integration.worker.workers import attempts, outcomes
from tests.store import CARD, TENANT, WORST_CASE, time_enough
from tests.waiting import eventually

if TYPE_CHECKING:
    from jobs_store.identifiers import JobId
    from tests.integration.worker.workers import Bench


async def _cancel(bench: Bench, job: JobId) -> CancelOutcome:
    return await bench.store.cancellation.cancel(
        TENANT, job, principal="ada", reason="changed my mind", budget=time_enough()
    )


async def _tokens_flushed(bench: Bench, job: JobId, *, at_least: int = 1) -> None:
    async def enough() -> bool:
        deltas = [e for e in await bench.events(job) if e.kind is EventKind.TOKEN_DELTA]
        return len(deltas) >= at_least

    await eventually(enough, within=10.0)


@pytest.mark.scenario("X1")
async def test_a_cancel_before_the_start_step_means_that_the_provider_is_never_called(bench: Bench) -> None:
    """The locked row says so to the start step: NOT_SENT, and nothing is charged."""
    job = await bench.job("simulated-fast")
    calls = len(bench.all_seen())
    await bench.cancel_with_the_claim()
    async with bench.worker():
        detail = await bench.ends(job)
    assert (JobState.CANCELLED, ["NOT_SENT"]) == (detail.job.state, outcomes(detail))
    assert calls == len(bench.all_seen())
    assert (Decimal(0), Decimal(0)) == await bench.funds()


@pytest.mark.scenario("X1", "X5")
async def test_a_cancel_after_tokens_closes_the_call_and_charges_what_was_delivered(bench: Bench) -> None:
    """The two events have their own times; the provider's cost stays unknown."""
    job = await bench.job("simulated-drip")
    async with bench.worker(renewal_interval=0.2, cut_off=20.0):
        await _tokens_flushed(bench, job, at_least=2)
        key = await bench.token_of(job)
        assert CancelOutcome.CANCEL_REQUESTED is await _cancel(bench, job)
        detail = await bench.ends(job, within=5.0)
        seen = await bench.seen(key)
    assert seen is not None
    assert "closed_by_client" == seen["state"]
    (attempt,) = attempts(detail)
    assert (AttemptOutcome.CANCELLED, CostBasis.UNKNOWN, WORST_CASE) == (
        attempt.end.outcome,
        attempt.end.cost.basis,
        attempt.end.cost.worst_case,
    )
    events = await bench.events(job)
    delivered = sum(int(str(e.attributes["token_count"])) for e in events if e.kind is EventKind.TOKEN_DELTA)
    charge = charge_of_cancel(CARD, input_estimate=90, delivered_tokens=delivered)
    assert charge > 0
    assert (Decimal(0), charge) == await bench.funds()
    asked, closed = (
        next(e for e in events if e.kind is kind)
        for kind in (EventKind.CANCEL_REQUESTED, EventKind.PROVIDER_CALL_CLOSED)
    )
    assert {"principal": "ada", "reason": "changed my mind"} == dict(asked.attributes)
    assert detail.job.cancel_request_time == asked.time
    assert datetime.fromisoformat(str(closed.attributes["close_time"])) > asked.time
    assert asked.sequence < closed.sequence < events[-1].sequence


@pytest.mark.parametrize("wake_ups", [True, False])
@pytest.mark.scenario("X2")
async def test_a_cancel_reaches_a_running_job_with_and_without_notifications(
    bench: Bench, wake_ups: bool
) -> None:
    """At once when told, else with the next renewal or flush; here nothing is flushed."""
    job = await bench.job("simulated-stall-first")
    interval = 15.0 if wake_ups else 0.5
    route = bench.route(first_token=60.0)
    async with bench.worker(wake_ups=wake_ups, renewal_interval=interval, cut_off=20.0, routes=(route,)):
        key = await bench.sent(job)
        await _cancel(bench, job)
        if wake_ups:
            await bench.notify(cancel_asked(TENANT, job))
        detail = await bench.ends(job, within=1.5)
        seen = await bench.seen(key)
    assert (JobState.CANCELLED, ["CANCELLED"]) == (detail.job.state, outcomes(detail))
    assert seen is not None
    assert "closed_by_client" == seen["state"]
    assert (Decimal(0), Decimal(0)) == await bench.funds()


@pytest.mark.scenario("X7")
async def test_a_whole_answer_that_meets_a_cancel_is_not_accepted(bench: Bench) -> None:
    """What CancelJob answered is what happens: the delivered tokens are charged, and the cost is known."""
    job = await bench.job("simulated:tokens=20,tps=40")
    async with bench.worker(wake_ups=False, flush_interval=30.0):
        await bench.sent(job)
        assert CancelOutcome.CANCEL_REQUESTED is await _cancel(bench, job)
        detail = await bench.ends(job)
    (attempt,) = attempts(detail)
    assert JobState.CANCELLED is detail.job.state
    assert (AttemptOutcome.CANCELLED, CostBasis.REPORTED, 20) == (
        attempt.end.outcome,
        attempt.end.cost.basis,
        attempt.end.usage.output_tokens,
    )
    assert detail.content is not None
    assert detail.content.result is None
    charge = charge_of_cancel(CARD, input_estimate=90, delivered_tokens=20)
    assert (Decimal(0), charge) == await bench.funds()
    kinds = [event.kind for event in await bench.events(job)]
    assert EventKind.CANCEL_REQUESTED in kinds
    assert EventKind.RESULT_ACCEPTED not in kinds


@pytest.mark.scenario("X4")
async def test_a_cancel_beats_an_error_that_would_be_retried(bench: Bench) -> None:
    """Cancel plus a retryable error is CANCELLED."""
    job = await bench.job("simulated:status=500,first=0.3")
    async with bench.worker(wake_ups=False):
        await bench.sent(job)
        await _cancel(bench, job)
        detail = await bench.ends(job)
    assert JobState.CANCELLED is detail.job.state
    assert 1 == len(detail.attempts)


async def test_a_job_that_is_cancelled_while_nobody_runs_it_is_left_alone(bench: Bench) -> None:
    """Nothing is claimed, nothing is called."""
    job = await bench.job("simulated-fast")
    assert CancelOutcome.CANCELLED is await _cancel(bench, job)
    other = await bench.job("simulated-fast")
    async with bench.worker():
        await bench.ends(other)
        await asyncio.sleep(0)
    assert [] == outcomes(await bench.get(job))
