"""What an error response means, for any status and header."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.providers.errors import CLASS_OF, Cause, ErrorClass, ProviderError
from worker.providers.http_status import (
    LONGEST_RETRY_AFTER,
    cause_of_status,
    codes_of_body,
    retry_after_seconds,
)

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


@given(st.integers(300, 599), st.frozensets(st.text(max_size=5), max_size=2))
def test_every_error_status_has_a_cause_and_every_cause_a_class(status: int, codes: frozenset[str]) -> None:
    assert cause_of_status(status, codes) in CLASS_OF


def test_every_cause_has_a_class() -> None:
    assert set(CLASS_OF) == set(Cause)


@given(st.text())
def test_any_retry_after_header_is_seconds_within_a_day_or_nothing(header: str) -> None:
    seconds = retry_after_seconds(header, now=NOW)
    assert seconds is None or 0 <= seconds <= LONGEST_RETRY_AFTER


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("7", 7.0),
        (" 7 ", 7.0),
        ("0", 0.0),
        ("999999999", LONGEST_RETRY_AFTER),
        (format_datetime(NOW + timedelta(seconds=90), usegmt=True), 90.0),
        (format_datetime(NOW - timedelta(hours=1), usegmt=True), 0.0),
        ("Mon, 30 Nov 2026 12:00:30", 30.0),
        ("soon", None),
        ("-3", None),
        ("1.5", None),
        ("", None),
    ],
)
def test_a_retry_after_header_is_a_delay_or_a_date(header: str | None, seconds: float | None) -> None:
    assert retry_after_seconds(header, now=NOW) == seconds


@pytest.mark.parametrize(
    ("body", "codes"),
    [
        ({"code": "Insufficient_Quota", "type": "x"}, {"insufficient_quota", "x"}),
        ({"error": {"code": "a", "type": None}}, {"a"}),
        ({"error": "text"}, set()),
        ("<html>", set()),
        (None, set()),
        ({"code": 7}, set()),
    ],
)
def test_codes_are_read_from_any_body(body: object, codes: set[str]) -> None:
    assert codes_of_body(body) == codes


def test_a_budget_that_ended_before_the_send_leaves_the_outcome_known() -> None:
    unsent = ProviderError(Cause.BUDGET_EXHAUSTED, provider="p", sent=False)
    assert unsent.error_class is ErrorClass.TRANSIENT
    assert ProviderError(Cause.BUDGET_EXHAUSTED, provider="p").error_class is ErrorClass.UNKNOWN


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        (Cause.INVALID_REQUEST, "PROVIDER_REFUSED"),
        (Cause.RATE_LIMITED, "PROVIDER_UNAVAILABLE"),
        (Cause.CREDENTIALS_REFUSED, "PROVIDER_UNAVAILABLE"),
        (Cause.BUDGET_EXHAUSTED, "BUDGET_EXHAUSTED"),
        (Cause.BETWEEN_TOKENS_TIMEOUT, "UPSTREAM_TIMEOUT"),
    ],
)
def test_a_failure_has_a_reason_for_the_caller_who_waits(cause: Cause, reason: str) -> None:
    assert ProviderError(cause, provider="p").reason == reason
