"""What an attempt came to, by how its call ended."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from jobs_store.attempts import NO_USAGE, ProviderCost
from jobs_store.rate_card import Usage
from jobs_store.states import AttemptOutcome, CostBasis, ErrorClass, FinishReason
from tests.unit.worker.claimed import CARD, MOMENT, WORST_CASE, claimed
from worker.outcome import Answered, Closed, Delivered, Failed, Stop, Unsent, attempt_end, not_accepted

USAGE = Usage(input_tokens=80, output_tokens=20)
SOME = Delivered(text="Hello there.", tokens=3, first_token_time=MOMENT)
NONE = Delivered()
UNKNOWN_COST = ProviderCost.unknown(WORST_CASE)


def test_an_answer_costs_what_the_provider_counted() -> None:
    end = attempt_end(
        claimed(), Answered(finish_reason=FinishReason.STOP, provider_request_id="r", usage=USAGE), SOME
    )
    assert (AttemptOutcome.SUCCEEDED, True, USAGE) == (end.outcome, end.counted, end.usage)
    assert ProviderCost.known(CARD, USAGE, CostBasis.REPORTED) == end.cost
    assert MOMENT == end.first_token_time


def test_an_answer_without_a_count_is_estimated_from_chunks_and_input() -> None:
    end = attempt_end(
        claimed(), Answered(finish_reason=FinishReason.STOP, provider_request_id="", usage=None), SOME
    )
    estimate = Usage(input_tokens=90, output_tokens=3)
    assert estimate == end.usage
    assert ProviderCost.known(CARD, estimate, CostBasis.ESTIMATED) == end.cost


def test_before_the_send_nothing_counts_and_nothing_is_owed() -> None:
    end = attempt_end(claimed(), Unsent.because_of(Stop.SHUTDOWN), NONE)
    assert (AttemptOutcome.NOT_SENT, "SHUTDOWN", False) == (end.outcome, end.cause, end.counted)
    assert ProviderCost.nothing() == end.cost


@pytest.mark.parametrize("stop", [Stop.SHUTDOWN, Stop.LEASE_LOST])
def test_a_closed_call_is_unknown_at_its_worst_case(stop: Stop) -> None:
    end = attempt_end(claimed(), Closed(stop=stop, close_time=MOMENT), SOME)
    assert (AttemptOutcome.UNKNOWN, stop, True) == (end.outcome, end.cause, end.counted)
    assert (ErrorClass.UNKNOWN, UNKNOWN_COST) == (end.error_class, end.cost)


def test_a_call_closed_for_a_users_cancel_is_cancelled_at_an_unknown_cost() -> None:
    end = attempt_end(claimed(), Closed(stop=Stop.CANCEL_REQUESTED, close_time=MOMENT), SOME)
    assert (AttemptOutcome.CANCELLED, UNKNOWN_COST, None) == (end.outcome, end.cost, end.error_class)


def test_a_call_that_never_left_is_failed_uncounted_and_free() -> None:
    failure = Failed(cause="CONNECT_FAILED", error_class=ErrorClass.TRANSIENT, sent=False)
    end = attempt_end(claimed(), failure, NONE)
    assert (AttemptOutcome.FAILED, False) == (end.outcome, end.counted)
    assert (NO_USAGE, ProviderCost.nothing()) == (end.usage, end.cost)


def test_an_unknown_class_counts_only_if_it_was_sent() -> None:
    failure = Failed(cause="CONNECTION_LOST", error_class=ErrorClass.UNKNOWN)
    sent = attempt_end(claimed(), failure, NONE)
    unsent = attempt_end(claimed(), replace(failure, sent=False), NONE)
    assert (AttemptOutcome.UNKNOWN, True, UNKNOWN_COST) == (sent.outcome, sent.counted, sent.cost)
    assert (AttemptOutcome.FAILED, False) == (unsent.outcome, unsent.counted)


def test_a_lost_answer_whose_usage_is_known_costs_just_that() -> None:
    failure = Failed(cause="STREAM_ENDED_EARLY", error_class=ErrorClass.UNKNOWN, usage=USAGE)
    end = attempt_end(claimed(), failure, SOME)
    assert AttemptOutcome.UNKNOWN is end.outcome
    assert ProviderCost.known(CARD, USAGE, CostBasis.REPORTED) == end.cost


@pytest.mark.parametrize(
    ("status", "error_class", "counted"),
    [
        (401, ErrorClass.PLATFORM, False),
        (402, ErrorClass.PLATFORM, False),
        (403, ErrorClass.PLATFORM, False),
        (429, ErrorClass.TRANSIENT, False),
        (400, ErrorClass.PERMANENT, True),
        (408, ErrorClass.TRANSIENT, True),
        (500, ErrorClass.TRANSIENT, True),
        (503, ErrorClass.TRANSIENT, True),
        (504, ErrorClass.UNKNOWN, True),
    ],
)
def test_refusals_of_our_account_or_our_rate_do_not_count(
    status: int, error_class: ErrorClass, counted: bool
) -> None:
    end = attempt_end(claimed(), Failed(cause="X", error_class=error_class, http_status=status), NONE)
    assert counted is end.counted


def test_an_error_response_costs_nothing_and_text_before_an_error_is_estimated() -> None:
    failure = Failed(cause="CONTENT_FILTERED", error_class=ErrorClass.PERMANENT)
    assert ProviderCost.nothing() == attempt_end(claimed(), failure, NONE).cost
    end = attempt_end(claimed(), failure, SOME)
    assert (CostBasis.ESTIMATED, 3) == (end.cost.basis, end.usage.output_tokens)


def test_an_answer_that_nobody_accepts_is_no_success_and_keeps_its_cost() -> None:
    answer = Answered(finish_reason=FinishReason.STOP, provider_request_id="", usage=USAGE)
    end = attempt_end(claimed(), answer, SOME)
    refused = not_accepted(end)
    assert (AttemptOutcome.CANCELLED, end.cost) == (refused.outcome, refused.cost)
    failed = attempt_end(claimed(), Failed(cause="X", error_class=ErrorClass.TRANSIENT), NONE)
    assert failed == not_accepted(failed)
    assert Decimal(0) == failed.cost.amount
