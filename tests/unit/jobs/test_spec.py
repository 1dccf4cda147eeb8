"""Specs: what they are compared by, what is filled in, what is refused."""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs_service.domain.draft import MessageDraft, Role, SpecDraft, canonical
from jobs_service.domain.faults import Faults
from jobs_service.domain.limits import Limits
from jobs_service.domain.spec import checked_spec, estimate_of
from jobs_store.idempotency import DEFAULTS, HASH_VERSION, request_digest
from jobs_store.states import UnknownOutcomePolicy
from jobs_store.token_bound import input_token_bound
from servicekit.errors import InvalidRequest

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
HELLO = MessageDraft(role=Role.USER, content="Say hello.")
DRAFT = SpecDraft(model="m", messages=(HELLO,))
SPELLED_OUT: dict[str, Any] = {
    "max_output_tokens": 1024,
    "attempt_timeout": 90.0,
    "max_attempts": 3,
    "priority": 0,
    "queue_timeout": 86400.0,
}


def violations(draft: SpecDraft, limits: Limits | None = None) -> dict[str, str]:
    faults = Faults("spec")
    checked_spec(draft, faults, limits=limits or Limits(), now=NOW)
    try:
        faults.raise_if_any()
    except InvalidRequest as error:
        return {violation.field: violation.description for violation in error.violations}
    return {}


def digest(draft: SpecDraft) -> bytes:
    return request_digest(canonical(draft))


def test_a_small_spec_is_good() -> None:
    assert violations(DRAFT) == {}


@pytest.mark.parametrize("name", list(SPELLED_OUT))
def test_a_default_that_is_spelled_out_changes_nothing(name: str) -> None:
    assert SPELLED_OUT[name] == DEFAULTS[HASH_VERSION][name]
    assert digest(replace(DRAFT, **{name: SPELLED_OUT[name]})) == digest(DRAFT)


@pytest.mark.parametrize(
    "change",
    [
        {"model": "n"},
        {"messages": (replace(HELLO, content="Say hello!"),)},
        {"messages": (replace(HELLO, role=Role.SYSTEM),)},
        {"messages": (HELLO, HELLO)},
        {"max_output_tokens": 1025},
        {"temperature": 0.0},
        {"top_p": 0.5},
        {"stop": ("x",)},
        {"seed": 0},
        {"max_charge": Decimal("1.000000000")},
        {"provider_cost_limit": Decimal("1.000000000")},
        {"attempt_timeout": 91.0},
        {"max_attempts": 4},
        {"unknown_outcome_policy": UnknownOutcomePolicy.RETRY},
        {"priority": 1},
        {"schedule_time": NOW},
        {"queue_timeout": 1.0},
        {"labels": {"a": "1"}},
    ],
)
def test_everything_else_makes_another_spec(change: dict[str, Any]) -> None:
    assert digest(replace(DRAFT, **change)) != digest(DRAFT)


def test_how_a_value_is_written_does_not_count() -> None:
    one = replace(
        DRAFT,
        temperature=0.0,
        max_charge=Decimal("1.5"),
        schedule_time=NOW,
        labels={"a": "1", "b": "2"},
        attempt_timeout=60,
    )
    other = replace(
        DRAFT,
        temperature=-0.0,
        max_charge=Decimal("1.500000000"),
        schedule_time=NOW.astimezone(timezone(timedelta(hours=5))),
        labels={"b": "2", "a": "1"},
        attempt_timeout=60.0,
    )
    assert digest(one) == digest(other)


def test_the_digest_of_version_1_stays_what_it_was_released_as() -> None:
    full = replace(DRAFT, **SPELLED_OUT, temperature=0.5, stop=("end",), seed=7, labels={"b": "2", "a": "1"})
    assert digest(DRAFT).hex() == "984b62484e1de4bdcef8861dc02061c78789681b26ba28e6cddc3a64f19970cd"
    assert digest(full).hex() == "f46181419aa5877c0ec9640509217af8bcfdb5cca9d658c569e3de299930f5f0"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"model": ""}, "spec.model"),
        ({"model": "x" * 257}, "spec.model"),
        ({"model": "a\0"}, "spec.model"),
        ({"messages": ()}, "spec.messages"),
        ({"messages": (HELLO, replace(HELLO, content="a\0"))}, "spec.messages[1].content"),
        ({"messages": (replace(HELLO, role=None),)}, "spec.messages[0].role"),
        ({"messages": (replace(HELLO, content=None),)}, "spec.messages[0].content"),
        ({"max_output_tokens": 0}, "spec.max_output_token_count"),
        ({"max_output_tokens": 1_000_001}, "spec.max_output_token_count"),
        ({"temperature": math.nan}, "spec.sampling.temperature"),
        ({"temperature": -0.1}, "spec.sampling.temperature"),
        ({"top_p": 0.0}, "spec.sampling.top_p"),
        ({"top_p": math.inf}, "spec.sampling.top_p"),
        ({"stop": ("a",) * 5}, "spec.sampling.stop_sequences"),
        ({"stop": ("a", "")}, "spec.sampling.stop_sequences[1]"),
        ({"max_charge": Decimal(-1)}, "spec.max_charge"),
        ({"provider_cost_limit": Decimal("1e13")}, "spec.provider_cost_limit"),
        ({"attempt_timeout": 0.0}, "spec.attempt_timeout_duration"),
        ({"attempt_timeout": 3601.0}, "spec.attempt_timeout_duration"),
        ({"max_attempts": 0}, "spec.max_attempt_count"),
        ({"max_attempts": 21}, "spec.max_attempt_count"),
        ({"priority": -101}, "spec.priority"),
        ({"schedule_time": NOW + timedelta(days=400)}, "spec.schedule_time"),
        ({"queue_timeout": -1.0}, "spec.queue_timeout_duration"),
        ({"queue_timeout": 31 * 86400.0}, "spec.queue_timeout_duration"),
        ({"labels": {"A": "1"}}, "spec.labels['A']"),
        ({"labels": {"a": "ä" * 128}}, "spec.labels['a']"),
        ({"labels": {f"k{n}": "" for n in range(33)}}, "spec.labels"),
    ],
)
def test_a_field_that_is_wrong_is_named(change: dict[str, Any], field: str) -> None:
    assert set(violations(replace(DRAFT, **change))) == {field}


def test_a_payload_is_measured_in_bytes() -> None:
    limits = Limits(payload_bytes=4)
    assert violations(replace(DRAFT, messages=(replace(HELLO, content="ää"),)), limits) == {}
    assert set(violations(replace(DRAFT, messages=(replace(HELLO, content="ääx"),)), limits)) == {
        "spec.messages"
    }


def test_a_schedule_in_the_past_means_now() -> None:
    assert violations(replace(DRAFT, schedule_time=NOW - timedelta(days=4000))) == {}


@given(st.lists(st.text(max_size=60), max_size=6))
def test_an_estimate_never_exceeds_the_bound(contents: list[str]) -> None:
    assert 0 <= estimate_of(contents) <= input_token_bound(contents)


def test_english_is_estimated_at_four_bytes_a_token() -> None:
    assert estimate_of(["a" * 400]) == 104
