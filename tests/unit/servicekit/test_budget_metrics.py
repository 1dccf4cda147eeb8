"""What budgets came with, what was left of them, and what went beyond them, as numbers."""

from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from budget.core import Budget
from budget.ledger import Outcome, Spend
from servicekit.endings import SUCCESS
from servicekit.report import Report
from servicekit.request_metrics import RequestMetrics
from tests.integration.servicekit.metrics import counted, points

METHOD = "hourglass.jobs.v1.JobService/CreateJob"


@pytest.fixture
def reader() -> InMemoryMetricReader:
    return InMemoryMetricReader()


@pytest.fixture
def requests(reader: InMemoryMetricReader) -> RequestMetrics:
    return RequestMetrics(MeterProvider([reader]).get_meter("t"))


def spend(outcome: Outcome = Outcome.OK, *, took: float = 0.1, reason: str = "", **given: Any) -> Spend:
    told = {"remaining": 1.8, "limit": 0.3, **given}
    return Spend(dependency="pricing", method="GetPrice", took=took, outcome=outcome, reason=reason, **told)


def ended(budget: Budget, *spends: Spend) -> Report:
    for one in spends:
        budget.ledger.record(one)
    return Report(method=METHOD, principal=None, verdict=SUCCESS, budget=budget, took=0.2)


def a_request() -> Budget:
    return Budget.root(incoming=2.0, default=None, cap=None)


def test_every_budget_is_counted_as_it_came(reader: InMemoryMetricReader, requests: RequestMetrics) -> None:
    requests.record(METHOD, ended(a_request()))
    (point,) = points(reader, "hourglass.budget.at_entry")
    assert (1, 2.0, METHOD) == (point.count, point.sum, point.attributes["rpc.method"])


def test_a_stream_without_an_end_came_with_none(
    reader: InMemoryMetricReader, requests: RequestMetrics
) -> None:
    requests.record(METHOD, ended(Budget.for_stream(incoming=None), spend(remaining=float("inf"))))
    assert [] == list(points(reader, "hourglass.budget.at_entry"))
    assert [] == list(points(reader, "hourglass.budget.remaining"))


def test_every_spend_tells_what_was_left_when_it_began(
    reader: InMemoryMetricReader, requests: RequestMetrics
) -> None:
    requests.record(METHOD, ended(a_request(), spend(), spend(remaining=1.5)))
    (point,) = points(reader, "hourglass.budget.remaining")
    assert 2 == point.count
    assert pytest.approx(3.3) == point.sum
    assert "pricing" == point.attributes["hourglass.dependency"]


def test_only_what_went_beyond_what_it_was_given_is_an_overshoot(
    reader: InMemoryMetricReader, requests: RequestMetrics
) -> None:
    in_time, late = spend(took=0.3), spend(Outcome.TIMEOUT, took=0.304)
    given_less = spend(Outcome.EXHAUSTED, took=0.25, remaining=0.2)
    requests.record(METHOD, ended(a_request(), in_time, late, given_less))
    (point,) = points(reader, "hourglass.budget.overshoot")
    assert 2 == point.count
    assert pytest.approx(0.054) == point.sum


def test_what_was_decided_against_is_counted_by_its_reason_and_is_no_spend(
    reader: InMemoryMetricReader, requests: RequestMetrics
) -> None:
    skipped = spend(Outcome.SKIPPED_LOW, took=0.0)
    not_again = spend(Outcome.RETRY_SKIPPED, took=0.0, reason="NO_TOKEN")
    requests.record(METHOD, ended(a_request(), skipped, not_again))
    assert 1 == counted(reader, "hourglass.budget.skipped", hourglass_reason="skipped_low")
    assert 1 == counted(reader, "hourglass.budget.skipped", hourglass_reason="NO_TOKEN")
    assert [] == list(points(reader, "hourglass.budget.remaining"))


def test_a_stream_counts_the_spends_that_its_ledger_has_forgotten(
    reader: InMemoryMetricReader, requests: RequestMetrics
) -> None:
    budget = a_request()
    budget.ledger.forgetting = requests.record_spend
    requests.record(METHOD, ended(budget, *(spend() for _ in range(300))))
    (point,) = points(reader, "hourglass.budget.remaining")
    assert 300 == point.count
