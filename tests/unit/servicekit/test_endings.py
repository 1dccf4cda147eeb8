"""One verdict for every ending, from what is known when a handler ends."""

import asyncio

import pytest
from grpc import StatusCode

from budget.errors import BudgetTooLow, DatabaseTimeout
from hourglass.budget.v1.ledger_pb2 import BudgetEnding
from servicekit.endings import (
    CallerGone,
    Circumstances,
    Cut,
    Ending,
    caller_deadline_passed,
    judge,
)
from servicekit.errors import Resume


@pytest.mark.parametrize(
    ("remaining", "incoming", "passed"),
    [
        (0.0, 1.0, True),
        (0.0035, 0.1, True),  # core cancels a little early
        (0.007, 0.1, True),
        (0.011, 0.1, False),
        (1.4, 100.0, True),  # 1 % of rounding on the wire
        (1.6, 100.0, False),
        (None, None, False),
    ],
)
def test_a_cancel_near_the_callers_deadline_is_its_deadline(
    remaining: float | None, incoming: float | None, passed: bool
) -> None:
    assert passed == caller_deadline_passed(remaining=remaining, incoming=incoming)


@pytest.mark.parametrize("error", [asyncio.CancelledError(), CallerGone()])
@pytest.mark.parametrize(
    ("seen", "ending", "code"),
    [
        (Circumstances(cancelled=True), Ending.CALLER_CANCELLED, StatusCode.CANCELLED),
        (
            Circumstances(cancelled=True, deadline_passed=True),
            Ending.CALLER_DEADLINE,
            StatusCode.DEADLINE_EXCEEDED,
        ),
        (
            Circumstances(cancelled=True, draining=True, stopping=True),
            Ending.DRAINING,
            StatusCode.UNAVAILABLE,
        ),
        # A caller may leave during the grace too.
        (Circumstances(cancelled=True, draining=True), Ending.CALLER_CANCELLED, StatusCode.CANCELLED),
    ],
)
def test_nothing_is_sent_to_a_caller_who_is_not_there(
    error: BaseException, seen: Circumstances, ending: Ending, code: StatusCode
) -> None:
    verdict = judge(error, seen)

    assert (ending, code, None) == (verdict.ending, verdict.code, verdict.status)


def test_a_callers_cancel_wins_over_our_own_timer() -> None:
    verdict = judge(asyncio.CancelledError(), Circumstances(cancelled=True, cut=Cut.BUDGET))

    assert Ending.CALLER_CANCELLED is verdict.ending


def test_a_named_cause_wins_over_our_own_timer() -> None:
    cause = DatabaseTimeout(dependency="postgres", method="create_job")

    verdict = judge(cause, Circumstances(cut=Cut.BUDGET))

    assert (Ending.UPSTREAM_TIMEOUT, "DATABASE_TIMEOUT", StatusCode.UNAVAILABLE) == (
        verdict.ending,
        verdict.reason,
        verdict.code,
    )


def test_our_own_timer_wins_over_what_a_handler_made_of_it() -> None:
    verdict = judge(ValueError("cleanup failed"), Circumstances(cut=Cut.BUDGET))

    assert "BUDGET_EXHAUSTED" == verdict.reason


def test_a_builtin_timeout_that_is_not_ours_is_a_fault() -> None:
    assert "INTERNAL" == judge(TimeoutError(), Circumstances()).reason


def test_a_budget_that_was_too_low_is_a_budget_that_ran_out() -> None:
    low = BudgetTooLow(remaining=0.01, floor=0.02, dependency="pricing", method="GetPrice")

    verdict = judge(low, Circumstances())

    assert (Ending.BUDGET_EXHAUSTED, "BUDGET_TOO_LOW") == (verdict.ending, verdict.reason)


@pytest.mark.parametrize(("draining", "ending"), [(True, Ending.DRAINING), (False, Ending.BUDGET_EXHAUSTED)])
def test_a_handler_may_end_its_stream_with_resume_itself(draining: bool, ending: Ending) -> None:
    verdict = judge(Resume(), Circumstances(draining=draining))

    assert (ending, "RESUME", StatusCode.UNAVAILABLE) == (verdict.ending, verdict.reason, verdict.code)


def test_a_cause_inside_a_group_is_the_cause() -> None:
    cause = DatabaseTimeout(dependency="postgres", method="create_job")

    assert "DATABASE_TIMEOUT" == judge(ExceptionGroup("fan-out", [KeyError(), cause]), Circumstances()).reason


def test_every_ending_has_its_name_on_the_wire() -> None:
    wire = {name.removeprefix("BUDGET_ENDING_") for name in BudgetEnding.keys()}  # noqa: SIM118 - no mapping

    assert {ending.name for ending in Ending} | {"UNSPECIFIED"} == wire
