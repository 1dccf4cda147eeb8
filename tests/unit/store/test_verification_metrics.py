"""What the last verification found, for alerts."""

from collections import Counter

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from jobs_store.verification_metrics import VerificationMetrics
from tests.integration.servicekit.metrics import counted, points

VIOLATIONS = "hourglass.verify.violations"
END_TIME = "hourglass.verify.end_time"


def test_nothing_is_shown_before_the_first_one_has_ended() -> None:
    reader = InMemoryMetricReader()
    VerificationMetrics(MeterProvider([reader]).get_meter("t"))
    assert [] == [*points(reader, END_TIME), *points(reader, VIOLATIONS)]


def test_the_latest_one_counts_and_says_that_what_was_broken_is_whole() -> None:
    reader = InMemoryMetricReader()
    now = [1000.0]
    shown = VerificationMetrics(MeterProvider([reader]).get_meter("t"), clock=lambda: now[0])
    shown.ended(Counter({"FUNDS_BALANCE": 2, "CALL_ADDS_UP": 0}))
    assert (1000.0, 2) == (counted(reader, END_TIME), counted(reader, VIOLATIONS, invariant="FUNDS_BALANCE"))
    now[0] = 2000.0
    shown.ended(Counter({"FUNDS_BALANCE": 0, "CALL_ADDS_UP": 0}))
    assert (2000.0, 0) == (counted(reader, END_TIME), counted(reader, VIOLATIONS))
    assert 2 == len(list(points(reader, VIOLATIONS)))
