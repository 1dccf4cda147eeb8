"""A storm of failures fills no disk, and nothing of it goes uncounted."""

import math
from dataclasses import dataclass
from typing import Any

import structlog
from grpc import StatusCode

from budget.core import Budget
from budget.ledger import Outcome, Spend
from servicekit.endings import SUCCESS, Ending, Verdict
from servicekit.report import Report, RequestLog
from servicekit.storm import BURST, QUIET, RATE, StormLimit

METHOD = "hourglass.jobs.v1.JobService/GetJob"
TIMEOUT = Verdict(
    ending=Ending.UPSTREAM_TIMEOUT, code=StatusCode.DEADLINE_EXCEEDED, reason="UPSTREAM_TIMEOUT"
)
FAULT = Verdict(ending=Ending.ERROR, code=StatusCode.INTERNAL, reason="INTERNAL", error=ZeroDivisionError())


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


def report(verdict: Verdict) -> Report:
    budget = Budget.root(incoming=None, default=1.0, cap=1.0)
    return Report(method=METHOD, principal=None, verdict=verdict, budget=budget, took=0.1)


def lines_of(log: RequestLog, clock: Clock, verdict: Verdict, *, count: int, every: float = 0.0) -> list[Any]:
    with structlog.testing.capture_logs() as lines:
        for _ in range(count):
            log.write(METHOD, report(verdict))
            clock.now += every
    return list(lines)


def test_every_request_that_went_well_has_its_line() -> None:
    clock = Clock()

    assert 1000 == len(lines_of(RequestLog(clock), clock, SUCCESS, count=1000))


def test_failures_have_a_line_each_until_they_are_a_storm() -> None:
    clock = Clock()
    log = RequestLog(clock)

    assert BURST == len(lines_of(log, clock, TIMEOUT, count=5000))
    assert RATE * 10 >= len(lines_of(log, clock, TIMEOUT, count=1000, every=0.01)) >= RATE * 10 - 1


def test_one_kind_of_failure_hides_no_other() -> None:
    clock = Clock()
    log = RequestLog(clock)
    lines_of(log, clock, TIMEOUT, count=5000)

    (line,) = lines_of(log, clock, FAULT, count=1)

    assert ("error", "INTERNAL") == (line["log_level"], line["reason"])


def test_lines_and_what_they_say_was_left_out_are_all_failures() -> None:
    clock = Clock()
    log = RequestLog(clock)
    lines = lines_of(log, clock, TIMEOUT, count=5000, every=0.001)
    clock.now += QUIET
    with structlog.testing.capture_logs() as last:
        log.close()

    written = [line for line in lines if line["event"] == "request"]
    assert 5000 == len(written) + sum(line.get("left_out", 0) for line in [*lines, *last])


def test_a_storm_that_is_over_is_told_by_whatever_request_comes_next() -> None:
    clock = Clock()
    log = RequestLog(clock)
    lines_of(log, clock, TIMEOUT, count=50)
    clock.now += QUIET

    told, line = lines_of(log, clock, SUCCESS, count=1)

    assert ("requests left out", METHOD, "upstream_timeout", "UPSTREAM_TIMEOUT", 30) == (
        told["event"],
        told["method"],
        told["ending"],
        told["reason"],
        told["left_out"],
    )
    assert "request" == line["event"]


def test_kinds_that_are_quiet_are_forgotten() -> None:
    clock = Clock()
    storm: StormLimit[int] = StormLimit(clock)
    for kind in range(100):
        storm.passes(kind)
    clock.now += QUIET

    assert [] == storm.over()
    assert 0 == len(storm)


def test_only_a_request_that_did_not_go_well_has_each_spend_by_itself() -> None:
    clock = Clock()
    ended = report(TIMEOUT)
    ended.budget.ledger.record(
        Spend(
            dependency="pricing",
            method="GetPrice",
            remaining=math.inf,
            limit=0.5,
            took=0.5,
            outcome=Outcome.TIMEOUT,
            reason="UPSTREAM_TIMEOUT",
        )
    )
    with structlog.testing.capture_logs() as logged:
        RequestLog(clock).write(METHOD, ended)
    ((line,), (good,)) = logged, lines_of(RequestLog(clock), clock, SUCCESS, count=1)

    assert "spends" not in good
    assert [
        {
            "dependency": "pricing",
            "method": "GetPrice",
            "attempt": 1,
            "remaining": None,
            "limit": 0.5,
            "took": 0.5,
            "outcome": "timeout",
            "reason": "UPSTREAM_TIMEOUT",
        }
    ] == line["spends"]
    assert "pricing/GetPrice" in line["ledger"]


def test_a_budget_without_an_end_is_no_number_in_a_line() -> None:
    budget = Budget.for_stream(incoming=None)
    ended = Report(method=METHOD, principal=None, verdict=SUCCESS, budget=budget, took=0.1)
    with structlog.testing.capture_logs() as logged:
        RequestLog(Clock()).write(METHOD, ended)

    assert [None] == [line["budget_remaining"] for line in logged]
