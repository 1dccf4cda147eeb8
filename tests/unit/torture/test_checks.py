"""The checks of torture believe nothing either: each notices what it is there for."""

import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from hourglass.jobs.v1.event_pb2 import JobEvent, TokenDelta
from hourglass.jobs.v1.job_pb2 import JOB_STATE_CANCELLED, JOB_STATE_SUCCEEDED
from tests.torture.checks import all_broken, expected_answer
from tests.torture.facts import Facts, Row
from tests.torture.planned_jobs import RETRY, Submission
from tests.torture.submitters import Acknowledged
from tests.torture.watchers import Watched

JOB, TENANT, KEY = "job", "acme", "token"
TEXT = expected_answer({"number": "0", "max_output_tokens": 64, "model": "simulated:tokens=3"})
FUNDED, CAPTURED, RESERVED = Decimal(50), Decimal("0.000008"), Decimal("0.0001")
CARD = {
    "model": "simulated",
    "price_version": "1",
    "per_request": "0",
    "tiers": [{"above_input_tokens": 0, "input": "1", "cached_input": "1", "output": "2"}],
}
JOB_ROW: Row = {
    "tenant_id": TENANT,
    "job_id": JOB,
    "model": "simulated:tokens=3",
    "number": "0",
    "rate_card": json.dumps(CARD),
    "max_output_tokens": 64,
    "state": "SUCCEEDED",
    "state_cause": "ACCEPTED",
    "text": TEXT,
    "attempt_number": 1,
    "input_tokens": 2,
    "cached_input_tokens": 0,
    "output_tokens": 3,
}
ATTEMPT: Row = {"job_id": JOB, "number": 1, "run_token": KEY, "outcome": "SUCCEEDED", "send_time": 10.0}
EVENTS: list[Row] = [
    {"job_id": JOB, "sequence": 1, "kind": "TOKEN_DELTA", "attempt_number": 1, "text": TEXT},
    {"job_id": JOB, "sequence": 2, "kind": "RESULT_ACCEPTED", "attempt_number": 1, "text": ""},
]
RESERVATION: Row = {
    "tenant_id": TENANT,
    "job_id": JOB,
    "number": 1,
    "amount": RESERVED,
    "captured": CAPTURED,
    "released": RESERVED - CAPTURED,
    "settle_time": 20.0,
    "settle_cause": "ACCEPTED",
}
FUNDS: Row = {
    "tenant_id": TENANT,
    "funded": FUNDED,
    "available": FUNDED - CAPTURED,
    "reserved": Decimal(0),
    "captured": CAPTURED,
}
REQUEST: Row = {"key": KEY, "model": "simulated:tokens=3", "received_time": 10.5, "state": "finished"}
FACTS = Facts(
    jobs=[JOB_ROW],
    attempts={JOB: [ATTEMPT]},
    events={JOB: EVENTS},
    reservations={JOB: [RESERVATION]},
    funds=[FUNDS],
    counters=[{"name": "lane simulated", "running": 0, "queued": 0}],
    open_transactions=[],
    broken_invariants={},
    requests=[REQUEST],
)
SUBMISSION = Submission(
    number=0,
    at=0.0,
    tenant=TENANT,
    model="simulated:tokens=3",
    max_output_tokens=64,
    policy=RETRY,
    max_attempts=3,
    priority=0,
    generous=True,
    server=0,
)
KNOWN = Acknowledged(submission=SUBMISSION, job_id=JOB, final=JOB_STATE_SUCCEEDED)


def watched(text: str) -> Watched:
    return Watched(
        tenant=TENANT, job_id=JOB, events=[JobEvent(sequence=1, token_delta=TokenDelta(text=text))]
    )


def noticed(
    facts: Facts, known: list[Acknowledged] | None = None, watchers: list[Watched] | None = None
) -> list[str]:
    """The checks that found something."""
    found = all_broken(
        facts,
        acknowledged=[KNOWN] if known is None else known,
        watched=watchers or [],
        moved={TENANT: FUNDED},
    )
    return [name for name, problems in found.items() if problems]


def with_job(**changed: Any) -> Facts:
    return replace(FACTS, jobs=[{**JOB_ROW, **changed}])


def test_facts_that_agree_break_nothing() -> None:
    assert [] == noticed(FACTS, watchers=[watched(TEXT)])


@pytest.mark.parametrize(
    ("check", "broken"),
    [
        ("jobs are ended", lambda: with_job(state="RUNNING")),
        ("results are accepted once", lambda: replace(FACTS, events={JOB: [*EVENTS, EVENTS[1]]})),
        ("results are accepted once", lambda: replace(FACTS, attempts={JOB: [ATTEMPT, ATTEMPT]})),
        ("results are accepted once", lambda: with_job(text=None)),
        ("results are the answers", lambda: with_job(text="something else")),
        ("results are the answers", lambda: replace(FACTS, events={JOB: EVENTS[1:]})),
        ("captures are priced by the stored card", lambda: with_job(output_tokens=4)),
        (
            "reservations are settled",
            lambda: replace(FACTS, reservations={JOB: [{**RESERVATION, "settle_time": None}]}),
        ),
        ("funds balance", lambda: replace(FACTS, funds=[{**FUNDS, "available": FUNDED}])),
        (
            "counters are zero",
            lambda: replace(FACTS, counters=[{"name": "tenant acme", "running": 1, "queued": 0}]),
        ),
        ("wire calls are attempts", lambda: replace(FACTS, requests=[REQUEST, REQUEST])),
        ("wire calls are attempts", lambda: replace(FACTS, requests=[REQUEST, {**REQUEST, "key": "other"}])),
        ("wire calls are attempts", lambda: replace(FACTS, requests=[{**REQUEST, "received_time": 9.0}])),
        ("wire calls are attempts", lambda: replace(FACTS, requests=[{**REQUEST, "state": "open"}])),
        ("successes were answered", lambda: replace(FACTS, requests=[{**REQUEST, "state": "failed"}])),
        ("invariants hold", lambda: replace(FACTS, broken_invariants={"FUNDS_BALANCE": ["acme"]})),
        (
            "nothing is left open",
            lambda: replace(
                FACTS, open_transactions=[{"application_name": "x", "state": "idle", "seconds": 9.0}]
            ),
        ),
    ],
)
def test_what_does_not_agree_is_noticed(check: str, broken: Callable[[], Facts]) -> None:
    assert check in noticed(broken())


def test_a_lost_job_and_one_too_many_are_noticed() -> None:
    assert "jobs are those acknowledged" in noticed(replace(FACTS, jobs=[]))
    assert "jobs are those acknowledged" in noticed(FACTS, known=[])


def test_a_caller_who_was_told_something_else_is_noticed() -> None:
    told = replace(KNOWN, final=JOB_STATE_CANCELLED)
    promised = replace(KNOWN, cancelled="CANCEL_REQUESTED")
    assert ["callers saw the end"] == noticed(FACTS, known=[told])
    assert ["callers saw the end"] == noticed(FACTS, known=[promised])


def test_a_watcher_who_saw_something_else_is_noticed() -> None:
    assert ["watchers saw the log"] == noticed(FACTS, watchers=[watched("another text")])
