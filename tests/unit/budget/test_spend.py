import asyncio
from contextlib import suppress
from dataclasses import replace

import pytest

from budget.cancel import CancelWatch
from budget.core import Budget
from budget.errors import (
    BudgetExhausted,
    BudgetTooLow,
    CommitOutcomeUnknown,
    DatabaseTimeout,
    PoolTimeout,
    SpuriousCancel,
    UpstreamError,
    UpstreamTimeout,
)
from budget.ledger import Outcome, Spend
from budget.policy import Enforcement, Policy
from budget.spend import skip, spend
from budget.timer import Timer
from tests.unit.budget.clocks import FakeClock

PRICING = Policy(dependency="pricing", method="GetPrice", limit=0.3, floor=0.05)
LOAD = Policy(dependency="worker", method="GetWorkerStatus", limit=0.2, floor=0.1, optional=True)
BRIEF = replace(PRICING, limit=0.02, floor=0.0)


def budget_of(seconds: float, clock: FakeClock | None = None) -> Budget:
    if clock is None:
        return Budget.root(incoming=seconds, default=None, cap=None)
    return Budget.root(incoming=seconds, default=None, cap=None, clock=clock)


def endings(budget: Budget) -> list[tuple[Outcome, str]]:
    return [(one.outcome, one.reason) for one in budget.ledger.spends]


async def test_a_call_that_ends_well_stands_in_the_ledger() -> None:
    clock = FakeClock()
    budget = budget_of(2.0, clock)
    async with spend(budget, PRICING, attempt=2) as child:
        clock.advance(0.0125)
    (one,) = budget.ledger.spends
    expected = Spend(
        dependency="pricing",
        method="GetPrice",
        remaining=1.8,
        limit=0.3,
        took=0.0125,
        outcome=Outcome.OK,
        attempt=2,
    )
    assert expected == replace(one, remaining=round(one.remaining, 6), took=round(one.took, 6))
    assert child.initial == 0.3


async def test_below_its_floor_a_required_call_is_refused_before_it_starts() -> None:
    budget = budget_of(0.05)
    started = False
    with pytest.raises(BudgetTooLow) as caught:
        async with spend(budget, PRICING):
            started = True
    assert not started
    assert endings(budget) == [(Outcome.REFUSED_LOW, "")]
    assert caught.value.reason == "BUDGET_TOO_LOW"
    assert {"dependency", "method", "limit_ms", "remaining_ms", "floor_ms"} == set(caught.value.metadata)


async def test_with_20_ms_left_there_is_no_fan_out_at_all() -> None:
    budget = budget_of(0.02)
    with pytest.raises(BudgetTooLow):
        async with spend(budget, PRICING):
            pytest.fail("the call was made")


def test_with_80_ms_left_there_is_no_optional_enrichment() -> None:
    budget = budget_of(0.08)
    assert skip(budget, LOAD)
    assert endings(budget) == [(Outcome.SKIPPED_LOW, "")]


def test_with_plenty_left_an_optional_call_is_made_and_a_required_one_never_skipped() -> None:
    assert not skip(budget_of(2.0), LOAD)
    assert not skip(budget_of(0.01), PRICING)


@pytest.mark.parametrize("kind", [UpstreamTimeout, DatabaseTimeout, PoolTimeout])
async def test_a_used_up_limit_is_the_dependencys_fault(kind: type[UpstreamTimeout]) -> None:
    budget = budget_of(2.0)
    with pytest.raises(kind) as caught:
        async with spend(budget, BRIEF, timed_out=kind):
            await asyncio.sleep(5)
    assert endings(budget) == [(Outcome.TIMEOUT, kind.cause)]
    assert (
        caught.value.dependency,
        caught.value.method,
        caught.value.limit,
    ) == ("pricing", "GetPrice", 0.02)


async def test_a_used_up_budget_is_not_the_dependencys_fault() -> None:
    budget = budget_of(0.5)
    with pytest.raises(BudgetExhausted):
        async with spend(budget, replace(PRICING, limit=5.0)):
            await asyncio.sleep(5)
    assert endings(budget) == [(Outcome.EXHAUSTED, "")]
    assert budget.remaining() > 0, "the reserve is left to answer with"


async def test_a_budget_found_empty_on_the_way_is_named_after_the_call() -> None:
    budget = budget_of(2.0)
    with pytest.raises(BudgetExhausted) as caught:
        async with spend(budget, PRICING):
            raise BudgetExhausted
    assert (caught.value.dependency, endings(budget)) == ("pricing", [(Outcome.EXHAUSTED, "")])


async def test_a_reported_timeout_counts_like_our_own_timer() -> None:
    budget = budget_of(2.0)
    with pytest.raises(UpstreamTimeout):
        async with spend(budget, PRICING):
            raise UpstreamTimeout(dependency="pricing", method="GetPrice")
    assert endings(budget) == [(Outcome.TIMEOUT, "")]


async def test_a_timeout_of_something_else_inside_is_only_an_error_here() -> None:
    budget = budget_of(2.0)
    with pytest.raises(UpstreamTimeout):
        async with spend(budget, PRICING):
            raise UpstreamTimeout(dependency="other", method="Other")
    assert endings(budget) == [(Outcome.ERROR, "UPSTREAM_TIMEOUT")]


async def test_an_error_is_named_by_its_cause_or_its_type() -> None:
    budget = budget_of(2.0)
    with pytest.raises(UpstreamError):
        async with spend(budget, PRICING):
            raise UpstreamError(dependency="pricing", method="GetPrice", code="UNAVAILABLE")
    with pytest.raises(KeyError):
        async with spend(budget, PRICING):
            raise KeyError("lost")
    assert endings(budget) == [(Outcome.ERROR, "UNAVAILABLE"), (Outcome.ERROR, "KeyError")]


async def test_a_cancelled_call_is_cancelled_and_says_so() -> None:
    budget = budget_of(2.0)
    task = asyncio.create_task(_spend_for_ever(budget))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert endings(budget) == [(Outcome.CANCELLED, "")]


async def _spend_for_ever(budget: Budget, policy: Policy = PRICING) -> None:
    async with spend(budget, policy):
        await asyncio.Event().wait()


async def test_when_timer_and_caller_cancel_in_one_tick_the_caller_wins() -> None:
    budget = budget_of(2.0)
    loop = asyncio.get_running_loop()
    task = asyncio.create_task(_spend_for_ever(budget, BRIEF))
    await asyncio.sleep(0)
    (timer,) = [handle for handle in loop._scheduled if not handle.cancelled()]  # type: ignore[attr-defined] # no public way
    loop.call_at(timer.when(), task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert endings(budget) == [(Outcome.CANCELLED, "")]


async def test_a_cancel_that_the_body_turned_into_a_timeout_is_still_a_cancel() -> None:
    budget = budget_of(2.0)

    async def misbehave() -> None:
        async with spend(budget, PRICING):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise TimeoutError from None

    task = asyncio.create_task(misbehave())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert endings(budget) == [(Outcome.CANCELLED, "")]


async def test_a_cancel_that_the_body_swallowed_is_raised_again() -> None:
    budget = budget_of(2.0)

    async def misbehave() -> None:
        async with spend(budget, PRICING):
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
        pytest.fail("the cancel was lost")

    task = asyncio.create_task(misbehave())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert endings(budget) == [(Outcome.CANCELLED, "COMPLETED")]


async def test_a_cancelled_error_without_a_cancel_is_an_error_of_ours() -> None:
    budget = budget_of(2.0)
    with pytest.raises(SpuriousCancel):
        async with spend(budget, PRICING):
            raise asyncio.CancelledError
    assert endings(budget) == [(Outcome.ERROR, "SPURIOUS_CANCEL")]


async def test_cleaning_up_after_a_cancel_can_still_run_out_of_time() -> None:
    budget = Budget.for_work(1.0)

    async def clean_up() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            with pytest.raises(UpstreamTimeout):
                async with spend(budget, BRIEF):
                    await asyncio.sleep(5)
            raise

    task = asyncio.create_task(clean_up())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert endings(budget) == [(Outcome.TIMEOUT, "")]


async def test_a_body_that_finishes_although_time_is_up_keeps_its_result() -> None:
    budget = budget_of(2.0)
    result = 0
    async with spend(budget, BRIEF):
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            result = 42
    assert (result, endings(budget)) == (42, [(Outcome.OK, "")])


async def _make_something_else_of_the_timer(budget: Budget, error: Exception) -> None:
    async with spend(budget, BRIEF):
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            raise error from None


async def test_a_typed_error_that_comes_late_is_not_mistaken_for_a_timeout() -> None:
    budget = budget_of(2.0)
    with pytest.raises(CommitOutcomeUnknown):
        await _make_something_else_of_the_timer(budget, CommitOutcomeUnknown())
    assert endings(budget) == [(Outcome.ERROR, "COMMIT_OUTCOME_UNKNOWN")]


async def test_whatever_a_library_makes_of_our_timer_it_is_a_timeout() -> None:
    budget = budget_of(2.0)
    with pytest.raises(UpstreamTimeout):
        await _make_something_else_of_the_timer(budget, ConnectionError())
    assert endings(budget) == [(Outcome.TIMEOUT, "")]


async def test_no_timer_of_zero_is_ever_entered(monkeypatch: pytest.MonkeyPatch) -> None:
    entered: list[float | None] = []
    real = Timer.start

    def watched(task: asyncio.Task[object], seconds: float | None) -> Timer:
        entered.append(seconds)
        return real(task, seconds)

    monkeypatch.setattr(Timer, "start", watched)
    for seconds in (-1.0, 0.0, 0.001, 0.0155, 0.01601, 0.02, 0.5):
        try:
            async with spend(budget_of(seconds), BRIEF):
                pass
        except BudgetTooLow:
            continue
    assert entered
    assert all(delay is not None and delay > 0 for delay in entered)


async def test_a_stream_without_an_end_has_no_timer() -> None:
    budget = Budget.for_stream(incoming=None)
    async with spend(budget, replace(PRICING, limit=float("inf"))) as child:
        assert child.unbounded
    assert endings(budget) == [(Outcome.OK, "")]


OBSERVED = replace(BRIEF, enforcement=Enforcement.OBSERVE)


async def test_observing_never_cuts_at_the_limit_but_counts_it() -> None:
    clock = FakeClock()
    budget = budget_of(2.0, clock)
    async with spend(budget, OBSERVED) as child:
        clock.advance(0.5)
    assert child.initial == 1.8
    assert [(one.outcome, one.would_cut) for one in budget.ledger.spends] == [(Outcome.OK, True)]
    assert [total.would_cut for total in budget.ledger.totals] == [1]


async def test_observing_never_refuses_below_the_floor_but_counts_it() -> None:
    budget = budget_of(0.05, FakeClock())
    observed_load = replace(LOAD, enforcement=Enforcement.OBSERVE)
    assert not skip(budget, observed_load)
    async with spend(budget, observed_load):
        pass
    assert [(one.outcome, one.would_cut) for one in budget.ledger.spends] == [(Outcome.OK, True)]


async def test_observing_still_ends_with_the_budget() -> None:
    budget = budget_of(0.05)
    with pytest.raises(BudgetExhausted):
        async with spend(budget, OBSERVED):
            await asyncio.sleep(5)
    assert endings(budget) == [(Outcome.EXHAUSTED, "")]


async def test_observing_cannot_start_without_any_time() -> None:
    budget = budget_of(0.01)
    with pytest.raises(BudgetTooLow):
        async with spend(budget, OBSERVED):
            pytest.fail("the call was made")


async def test_within_limits_observing_counts_nothing() -> None:
    budget = budget_of(2.0, FakeClock())
    async with spend(budget, OBSERVED):
        pass
    assert [one.would_cut for one in budget.ledger.spends] == [False]


async def test_a_watch_sees_only_cancels_after_it_began() -> None:
    async def cleaning_up() -> bool:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return CancelWatch.here().cancelled
        return True

    task = asyncio.create_task(cleaning_up())
    await asyncio.sleep(0)
    task.cancel()
    assert not await task
