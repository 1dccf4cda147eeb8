"""What a short call came to: outcome, charge and cost for every way in which it can break off."""

import asyncio
from decimal import Decimal
from typing import Any

import pytest

from budget.core import Budget
from budget.errors import BudgetExhausted, BudgetTooLow, CommitOutcomeUnknown, UpstreamTimeout
from jobs_service.domain.call_ending import end_of_answer, end_of_failure, interruption_of
from jobs_service.domain.errors import (
    ModelNotRouted,
    ProviderFailed,
    UseAJob,
    WorkerOverloaded,
    WorkerUnavailable,
)
from jobs_service.domain.short_call import Answered, CallSent, Progress, Speeds, Text, check_fits
from jobs_service.domain.spec import Spec
from jobs_store.attempts import ProviderCost
from jobs_store.calls import CallEnd
from jobs_store.rate_card import Usage
from jobs_store.states import AttemptOutcome, CostBasis, ErrorClass, FinishReason
from servicekit.endings import CallerGone, Cut
from tests.store import CARD, USAGE, WORST_CASE, price

PRICE = price(attempt_worst_case=WORST_CASE)
NOTHING = Decimal(0)
DELIVERED = 7
CHARGE_OF_DELIVERED = CARD.amount(Usage(input_tokens=PRICE.input_token_estimate, output_tokens=DELIVERED))
ANSWERED = Answered(
    finish_reason=FinishReason.STOP,
    usage=USAGE,
    cost=ProviderCost.known(CARD, USAGE, CostBasis.REPORTED),
    provider_request_id="req-1",
)
CALLED = Progress(asked=True, sent=True)


def streaming(tokens: int = DELIVERED) -> Progress:
    """A call whose answer has begun to come."""
    progress = Progress(asked=True)
    progress.take(CallSent())
    for at in range(tokens):
        progress.take(Text(text="x", offset=at, tokens=1))
    return progress


def provider_failed(error_class: ErrorClass, **changed: Any) -> ProviderFailed:
    """A provider's failure."""
    told = {"refused": False, "provider": "p", "cause": "WHY", "sent": True, **changed}
    return ProviderFailed(error_class=error_class, **told)


def ended(error: BaseException, progress: Progress, interruption: str = "CALLER_GONE") -> CallEnd:
    return end_of_failure(error, progress, PRICE, interruption=interruption)


def test_an_answer_is_charged_by_its_usage() -> None:
    end = end_of_answer(ANSWERED, PRICE)
    assert (AttemptOutcome.SUCCEEDED, CARD.amount(USAGE)) == (end.outcome, end.charge)
    assert (ANSWERED.cost, USAGE, "req-1") == (end.cost, end.usage, end.provider_request_id)


@pytest.mark.parametrize("error", [asyncio.CancelledError(), CallerGone(), WorkerUnavailable(called=True)])
def test_who_leaves_after_the_whole_answer_has_had_it(error: BaseException) -> None:
    progress = streaming()
    progress.take(ANSWERED)
    assert end_of_answer(ANSWERED, PRICE) == ended(error, progress)


@pytest.mark.parametrize(
    ("error", "progress"),
    [
        (asyncio.CancelledError(), Progress()),
        (CommitOutcomeUnknown(dependency="postgres", method="reserve_call"), Progress()),
        (BudgetTooLow(remaining=0, floor=1, dependency="worker", method="Generate"), Progress(asked=True)),
        (WorkerOverloaded(), Progress(asked=True)),
        (ModelNotRouted("m"), Progress(asked=True)),
        (WorkerUnavailable(called=False), Progress(asked=True)),
        (BudgetExhausted(upstream_reason="BUDGET_EXHAUSTED", upstream_metadata={"sent": "false"}), CALLED),
        (UpstreamTimeout(upstream_reason="BUDGET_EXHAUSTED", upstream_metadata={"sent": "false"}), CALLED),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_was_not_sent_costs_nobody_anything(error: BaseException, progress: Progress) -> None:
    end = ended(error, progress)
    assert (AttemptOutcome.NOT_SENT, NOTHING, ProviderCost.nothing()) == (end.outcome, end.charge, end.cost)


@pytest.mark.parametrize(
    ("error", "interruption", "outcome", "cause"),
    [
        (asyncio.CancelledError(), "CALLER_GONE", AttemptOutcome.CANCELLED, "CALLER_GONE"),
        (CallerGone(), "CALLER_GONE", AttemptOutcome.CANCELLED, "CALLER_GONE"),
        (asyncio.CancelledError(), "BUDGET_EXHAUSTED", AttemptOutcome.UNKNOWN, "BUDGET_EXHAUSTED"),
        (asyncio.CancelledError(), "DRAINING", AttemptOutcome.UNKNOWN, "DRAINING"),
        (BudgetExhausted(), "CALLER_GONE", AttemptOutcome.UNKNOWN, "BUDGET_EXHAUSTED"),
        (WorkerUnavailable(called=True), "CALLER_GONE", AttemptOutcome.UNKNOWN, "WORKER_GONE"),
        (ZeroDivisionError(), "CALLER_GONE", AttemptOutcome.UNKNOWN, "INTERNAL"),
    ],
)
def test_what_came_is_charged_and_the_rest_is_unknown(
    error: BaseException, interruption: str, outcome: AttemptOutcome, cause: str
) -> None:
    end = ended(error, streaming(), interruption)
    assert (outcome, cause, CHARGE_OF_DELIVERED) == (end.outcome, end.cause, end.charge)
    assert ProviderCost.unknown(WORST_CASE) == end.cost
    assert NOTHING == ended(error, CALLED, interruption).charge


def test_a_worker_that_was_asked_and_never_answered_may_have_called() -> None:
    end = ended(asyncio.CancelledError(), Progress(asked=True))
    assert (AttemptOutcome.CANCELLED, ProviderCost.unknown(WORST_CASE)) == (end.outcome, end.cost)


def test_a_provider_that_was_never_reached_has_failed_at_no_cost() -> None:
    end = ended(provider_failed(ErrorClass.TRANSIENT, sent=False), CALLED)
    assert (AttemptOutcome.FAILED, "WHY", NOTHING) == (end.outcome, end.cause, end.charge)
    assert ProviderCost.nothing() == end.cost


@pytest.mark.parametrize("error_class", [ErrorClass.PERMANENT, ErrorClass.PLATFORM, ErrorClass.TRANSIENT])
def test_a_provider_that_refuses_has_failed_at_no_cost_unless_something_came(error_class: ErrorClass) -> None:
    refused, broken = (ended(provider_failed(error_class), at) for at in (CALLED, streaming()))
    assert (AttemptOutcome.FAILED, NOTHING, ProviderCost.nothing()) == (
        refused.outcome,
        refused.charge,
        refused.cost,
    )
    assert (CHARGE_OF_DELIVERED, CostBasis.ESTIMATED) == (broken.charge, broken.cost.basis)


def test_a_provider_that_broke_off_is_unknown_unless_it_counted() -> None:
    unknown = ended(provider_failed(ErrorClass.UNKNOWN), streaming())
    counted = ended(provider_failed(ErrorClass.UNKNOWN, usage=USAGE), streaming())
    assert (AttemptOutcome.UNKNOWN, ProviderCost.unknown(WORST_CASE)) == (unknown.outcome, unknown.cost)
    assert (CARD.amount(USAGE), CostBasis.REPORTED) == (counted.cost.amount, counted.cost.basis)
    assert CHARGE_OF_DELIVERED == unknown.charge == counted.charge


def test_a_cancel_is_told_by_whose_timer_it_was() -> None:
    rich = Budget.root(incoming=10.0, default=None, cap=None)
    spent = Budget.root(incoming=0.0, default=None, cap=None)
    assert ["DRAINING", "BUDGET_EXHAUSTED", "CALLER_GONE", "BUDGET_EXHAUSTED"] == [
        interruption_of(Cut.DRAIN, rich),
        interruption_of(Cut.BUDGET, rich),
        interruption_of(None, rich),
        interruption_of(None, spent),
    ]


def test_the_longest_answer_has_to_fit_at_the_speed_of_its_lane() -> None:
    speeds = Speeds(first_token=0.5, tokens_per_second=40.0, of_lane={"p/slow": 10.0})
    asked = spec(max_output_tokens=100)
    check_fits(asked, "p/fast", speeds, time_left=3.0)
    with pytest.raises(UseAJob) as refused:
        check_fits(asked, "p/slow", speeds, time_left=10.4)
    assert {"estimate_ms": "10500", "budget_ms": "10400"} == refused.value.metadata
    check_fits(asked, "p/slow", speeds, time_left=10.5)


def spec(**changed: Any) -> Spec:
    """A spec."""
    values: dict[str, Any] = {
        "model": "m",
        "messages": [{"role": "user", "content": "hello"}],
        "max_output_tokens": 10,
        "sampling": {},
        "max_charge": None,
        "provider_cost_limit": None,
        "attempt_timeout": 90.0,
        "max_attempts": 1,
        "unknown_outcome_policy": None,
        "priority": 0,
        "schedule_time": None,
        "queue_timeout": 60.0,
        "labels": {},
    }
    return Spec(**{**values, **changed})
