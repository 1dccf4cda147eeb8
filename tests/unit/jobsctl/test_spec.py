"""A spec from flags and files."""

from decimal import Decimal

import pytest

from hourglass.jobs.v1.job_pb2 import JobSpec, Role, UnknownOutcomePolicy
from jobsctl.exits import ExitCode, Failure
from jobsctl.jobs.spec import SpecFlags, spec_of
from servicekit.wire_money import amount_of
from tests.unit.jobsctl.stories import NOON, at


def test_nothing_said_is_nothing_set() -> None:
    assert JobSpec() == spec_of(SpecFlags(), None)


def test_flags_fill_the_spec() -> None:
    spec = spec_of(
        SpecFlags(
            model="m",
            system="Be brief.",
            prompt="Why?",
            max_output_tokens=9,
            temperature=0.0,
            stop=["."],
            max_charge=Decimal("0.05"),
            attempt_timeout=1.5,
            max_attempts=2,
            on_unknown="hold",
            priority=0,
            schedule_time=NOON,
            labels={"a": "b"},
        ),
        None,
    )
    assert [(Role.ROLE_SYSTEM, "Be brief."), (Role.ROLE_USER, "Why?")] == [
        (message.role, message.content) for message in spec.messages
    ]
    assert ("m", 9, 2) == (spec.model, spec.max_output_token_count, spec.max_attempt_count)
    assert spec.HasField("priority")
    assert spec.sampling.HasField("temperature")
    assert Decimal("0.05") == amount_of(spec.max_charge)
    assert 1_500_000_000 == spec.attempt_timeout_duration.ToNanoseconds()
    assert UnknownOutcomePolicy.UNKNOWN_OUTCOME_POLICY_HOLD == spec.unknown_outcome_policy
    assert at(0) == spec.schedule_time
    assert {"a": "b"} == dict(spec.labels)


def test_flags_win_over_the_file_and_labels_come_together() -> None:
    text = """{"model": "m", "labels": {"a": "1", "b": "2"}, "max_output_token_count": "7",
        "messages": [{"role": "ROLE_USER", "content": "From the file"}]}"""
    spec = spec_of(SpecFlags(model="n", prompt="From the flag", labels={"b": "3"}), text)
    assert ("n", 7, {"a": "1", "b": "3"}) == (spec.model, spec.max_output_token_count, dict(spec.labels))
    assert ["From the flag"] == [message.content for message in spec.messages]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"modell": "m"}', '{"priority": "high"}'])
def test_a_file_that_is_no_spec_is_refused_with_its_flag(text: str) -> None:
    with pytest.raises(Failure, match=r"--spec: ") as refused:
        spec_of(SpecFlags(), text)
    assert ("USAGE", ExitCode.USAGE) == (refused.value.reason, refused.value.code)


def test_an_amount_below_the_smallest_unit_is_refused_with_its_flag() -> None:
    with pytest.raises(Failure, match="--max-charge: "):
        spec_of(SpecFlags(max_charge=Decimal("1e-10")), None)
