"""Renewal, takeover, and what a run may still do after it."""

from __future__ import annotations

import time
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from jobs_store.events import EventKind
from jobs_store.rate_card import Usage
from jobs_store.states import AttemptOutcome, CostBasis, JobState, UnknownOutcomePolicy
from tests.integration.worker.workers import attempts, outcomes
from tests.store import CARD, TENANT, WORST_CASE, succeeded, time_enough, token_of
from tests.waiting import eventually

if TYPE_CHECKING:
    from tests.integration.worker.workers import Bench

LANE = "simulated/simulated"
NO_RENEWAL = {"lease": 60.0, "cut_off": 50.0, "renewal_interval": 40.0, "wake_ups": False}
"""Nobody but the test ends these leases, and no renewal tells the run."""


@pytest.mark.scenario("L3")
async def test_a_stale_answer_is_refused_and_its_cost_stays_on_its_own_attempt(bench: Bench) -> None:
    """The job was taken over in the middle of the call; the second run's answer is the one accepted."""
    job = await bench.job("simulated:tokens=20,tps=15")
    async with bench.worker(flush_interval=30.0, slots=1, **NO_RENEWAL):
        await bench.sent(job)
        await bench.take_over(job)
        detail = await bench.ends(job)
        assert JobState.SUCCEEDED is detail.job.state

        async def cost_recorded() -> bool:
            first = attempts(await bench.get(job))[0]
            return first.end.cost.basis is CostBasis.REPORTED

        await eventually(cost_recorded, within=5.0)
    detail = await bench.get(job)
    first, second = attempts(detail)
    assert (AttemptOutcome.UNKNOWN, "LEASE_EXPIRED") == (first.end.outcome, first.end.cause)
    assert (20, Decimal(0)) == (first.end.usage.output_tokens, first.end.cost.worst_case)
    assert AttemptOutcome.SUCCEEDED is second.end.outcome
    assert detail.content is not None
    assert detail.content.usage is not None
    charge = CARD.amount(detail.content.usage)
    assert (Decimal(0), charge) == await bench.funds()
    deltas = [e for e in await bench.events(job) if e.kind is EventKind.TOKEN_DELTA]
    assert {second.number} == {delta.attempt_number for delta in deltas}


@pytest.mark.scenario("U3")
async def test_a_cost_that_a_lost_run_tells_later_makes_room_for_another_attempt(bench: Bench) -> None:
    """The limit has room for the worst case of two attempts; what the first one cost is known in time."""
    job = await bench.job(
        "simulated:tokens=30,tps=20,reset_after=20",
        max_attempts=5,
        provider_cost_limit=WORST_CASE * Decimal("2.5"),
    )
    await bench.store.runs.register_lanes([LANE], budget=time_enough())
    (zombie,) = await bench.store.claim(1, lanes=[LANE])
    await bench.store.start(zombie)
    await bench.take_over(job)
    async with bench.worker():
        await bench.sent(job)
        cost = succeeded(Usage(input_tokens=1, output_tokens=1))
        held = token_of(zombie)
        assert await bench.store.runs.record_lost_attempt(held, 1, cost, budget=time_enough())
        detail = await bench.ends(job)
    assert (JobState.FAILED, "PROVIDER_COST_LIMIT") == (detail.job.state, detail.job.state_cause)
    assert ["UNKNOWN"] * 3 == outcomes(detail)


@pytest.mark.scenario("L3")
async def test_a_run_that_lost_its_lease_closes_its_call(bench: Bench) -> None:
    """The next renewal finds another token on the row, or none."""
    job = await bench.job("simulated-drip", unknown_outcome_policy=UnknownOutcomePolicy.FAIL)
    async with bench.worker(renewal_interval=0.3, wake_ups=False, flush_interval=30.0) as worker:
        key = await bench.sent(job)
        await bench.take_over(job)
        await eventually(lambda: worker.free_slots == 8, within=5.0)
        seen = await bench.seen(key)
    assert seen is not None
    assert "closed_by_client" == seen["state"]
    detail = await bench.get(job)
    assert (JobState.FAILED, ["UNKNOWN"]) == (detail.job.state, outcomes(detail))


@pytest.mark.scenario("U5")
async def test_the_late_answer_of_a_held_job_is_accepted(bench: Bench) -> None:
    """The takeover put the job on hold; its token stays, so the run goes on and ends it."""
    job = await bench.job("simulated:tokens=20,tps=15", unknown_outcome_policy=UnknownOutcomePolicy.HOLD)
    async with bench.worker(renewal_interval=0.3, cut_off=20.0, wake_ups=False):
        await bench.sent(job)
        await bench.take_over(job)
        await bench.reaches(job, JobState.HELD)
        detail = await bench.ends(job)
    assert (JobState.SUCCEEDED, ["SUCCEEDED"]) == (detail.job.state, outcomes(detail))
    assert detail.content is not None
    assert detail.content.result is not None
    text = "".join(e.text or "" for e in await bench.events(job) if e.kind is EventKind.TOKEN_DELTA)
    assert detail.content.result.text == text
    assert detail.job.captured > 0


@pytest.mark.scenario("L9")
async def test_an_answer_that_comes_after_expiry_but_before_a_takeover_is_accepted(bench: Bench) -> None:
    """Expiry permits a takeover, it orders no stop."""
    job = await bench.job("simulated:tokens=10,tps=10")
    async with bench.worker(**NO_RENEWAL):
        await bench.sent(job)
        await bench.expire_lease(job)
        detail = await bench.ends(job)
    assert (JobState.SUCCEEDED, ["SUCCEEDED"]) == (detail.job.state, outcomes(detail))


@pytest.mark.scenario("L1")
async def test_leases_are_renewed_while_the_main_loop_is_blocked(bench: Bench) -> None:
    """Work that blocks the loop for longer than the lease costs no lease."""
    job = await bench.job("simulated-drip")
    async with bench.worker(lease=1.0, cut_off=0.8, renewal_interval=0.2, wake_ups=False):
        await bench.sent(job)
        time.sleep(2.5)  # noqa: ASYNC251 - the loop is to be blocked
        assert 0 == (await bench.store.reaper.reap(budget=time_enough())).taken_over
        detail = await bench.get(job)
        assert JobState.RUNNING is detail.job.state
        assert await bench.lease_left(job) > 0.0
        await bench.store.cancellation.cancel(TENANT, job, principal="ada", reason="", budget=time_enough())
        await bench.ends(job)


async def test_a_row_that_somebody_holds_is_renewed_soon_after(bench: Bench) -> None:
    """Busy is not lost: the run goes on, and the renewal comes again within a second."""
    job = await bench.job("simulated-drip")
    async with bench.worker(renewal_interval=0.3, cut_off=20.0, wake_ups=False, flush_interval=30.0):
        await bench.sent(job)
        async with bench.row_lock(job):
            await eventually(bench.renewal_met_a_lock, within=5.0)
        assert await bench.lease_left(job) > 0.0
        detail = await bench.get(job)
        assert JobState.RUNNING is detail.job.state
        await bench.store.cancellation.cancel(TENANT, job, principal="ada", reason="", budget=time_enough())
        await bench.ends(job)
