"""What becomes of a job after an attempt: the rules alone, without a database."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from jobs_store.attempts import AttemptEnd, ProviderCost
from jobs_store.decisions import (
    MAX_CRASHES,
    Decision,
    Fail,
    Hold,
    Requeue,
    RetryTiming,
    Tally,
    Terms,
    backoff,
    charge_of_cancel,
    decide,
)
from jobs_store.states import AttemptOutcome, Cause, ErrorClass, UnknownOutcomePolicy
from tests.store import CARD

CENT = Decimal("0.01")
TERMS = Terms(
    max_attempts=3,
    unknown_outcome_policy=UnknownOutcomePolicy.RETRY,
    attempt_worst_case=CENT,
    provider_cost_limit=10 * CENT,
)
FIRST = Tally(
    counted_attempts=0, crash_count=0, known_cost=Decimal(0), unknown_cost=Decimal(0), attempt_number=1
)
UNKNOWN = AttemptEnd(
    outcome=AttemptOutcome.UNKNOWN,
    cause="RESET",
    counted=True,
    error_class=ErrorClass.UNKNOWN,
    cost=ProviderCost.unknown(CENT),
)
NOT_SENT = AttemptEnd(outcome=AttemptOutcome.NOT_SENT, cause="CRASH", counted=False)


def failed(error_class: ErrorClass, *, counted: bool = True) -> AttemptEnd:
    return AttemptEnd(
        outcome=AttemptOutcome.FAILED, cause="HTTP_503", counted=counted, error_class=error_class
    )


def decided(end: AttemptEnd, *, terms: Terms = TERMS, tally: Tally = FIRST, **circumstances: Any) -> Decision:
    return decide(
        end, terms=terms, tally=tally, timing=RetryTiming(), jitter=lambda most: most, **circumstances
    )


@pytest.mark.parametrize("end", [UNKNOWN, failed(ErrorClass.TRANSIENT)])
def test_attempts_are_bounded(end: AttemptEnd) -> None:
    assert isinstance(decided(end, tally=replace(FIRST, counted_attempts=1)), Requeue)
    assert Fail(cause=Cause.MAX_ATTEMPTS) == decided(end, tally=replace(FIRST, counted_attempts=2))


def test_an_attempt_that_does_not_count_is_not_counted() -> None:
    refused = failed(ErrorClass.TRANSIENT, counted=False)

    assert isinstance(decided(refused, tally=replace(FIRST, counted_attempts=9)), Requeue)


def test_a_permanent_error_fails_the_job_at_once() -> None:
    assert Fail(cause=Cause.PERMANENT_ERROR) == decided(failed(ErrorClass.PERMANENT))


def test_an_unknown_attempt_counts_at_its_worst_case() -> None:
    enough = replace(TERMS, provider_cost_limit=4 * CENT)
    unknown_before = replace(FIRST, unknown_cost=2 * CENT)

    assert isinstance(decided(UNKNOWN, terms=enough, tally=unknown_before), Requeue)
    too_little = replace(enough, provider_cost_limit=4 * CENT - Decimal("1e-9"))
    assert Fail(cause=Cause.PROVIDER_COST_LIMIT) == decided(UNKNOWN, terms=too_little, tally=unknown_before)


def test_an_unknown_outcome_follows_its_policy() -> None:
    hold = replace(TERMS, unknown_outcome_policy=UnknownOutcomePolicy.HOLD)
    fail = replace(TERMS, unknown_outcome_policy=UnknownOutcomePolicy.FAIL)

    assert isinstance(decided(UNKNOWN), Requeue)
    assert Hold(timeout=RetryTiming().hold_timeout) == decided(UNKNOWN, terms=hold)
    assert Fail(cause=Cause.UNKNOWN_OUTCOME) == decided(UNKNOWN, terms=fail)


def test_a_payload_that_kills_its_workers_is_given_up() -> None:
    last = replace(FIRST, crash_count=MAX_CRASHES - 1)

    assert isinstance(decided(NOT_SENT, crashed=True), Requeue)
    assert Fail(cause=Cause.POISONED) == decided(NOT_SENT, tally=last, crashed=True)
    assert isinstance(decided(NOT_SENT, tally=last, crashed=False), Requeue)


def test_a_cancelled_job_pays_for_what_was_delivered() -> None:
    nothing = charge_of_cancel(CARD, input_estimate=90, delivered_tokens=0)
    some = charge_of_cancel(CARD, input_estimate=90, delivered_tokens=20)
    more = charge_of_cancel(CARD, input_estimate=90, delivered_tokens=40)

    assert Decimal(0) == nothing < some < more


@pytest.mark.parametrize("failures", [1, 2, 5, 1000])
def test_pauses_grow_and_stay_below_their_cap(failures: int) -> None:
    timing = RetryTiming()
    pauses = [backoff(number, timing, lambda most: most) for number in (failures, failures + 1)]

    assert pauses == sorted(pauses)
    assert 0 < pauses[1] <= timing.backoff_cap
