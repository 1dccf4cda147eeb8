"""Every kind of event crosses the wire and comes back the same."""

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from hourglass.jobs.v1 import event_pb2 as pb
from hourglass.jobs.v1 import job_pb2
from jobs_store.events import Event, EventKind
from jobs_store.identifiers import Sequence, sequence
from servicekit.wire_money import amount_of, money_of
from wire.events import event_message, event_of, kind_of

NOON = datetime(2026, 11, 30, 12, 0, 0, 123456, tzinfo=UTC)
LATER = sequence(2, 5)
USAGE: Mapping[str, object] = {"input_tokens": 10, "cached_input_tokens": 4, "output_tokens": 7}

ATTRIBUTES: dict[EventKind, Mapping[str, object]] = {
    EventKind.STATE_CHANGED: {
        "state": "SUCCEEDED",
        "cause": "ACCEPTED",
        "terminal": True,
        "captured": "0.000000001",
        "principal": "olga",
        "reason": "enough",
    },
    EventKind.ATTEMPT_STARTED: {"worker_id": "worker-1"},
    EventKind.ATTEMPT_SENT: {"provider": "local", "provider_model": "smollm2"},
    EventKind.ATTEMPT_ENDED: {"outcome": "FAILED", "cause": "HTTP_429", "error_class": "TRANSIENT"},
    EventKind.TOKEN_DELTA: {"offset": 12, "token_count": 3},
    EventKind.USAGE_REPORTED: USAGE,
    EventKind.COST_RECORDED: {"amount": "0.000000000", "basis": "UNKNOWN", "worst_case": "1.500000001"},
    EventKind.CANCEL_REQUESTED: {"principal": "ann", "reason": ""},
    EventKind.PROVIDER_CALL_CLOSED: {"close_time": NOON.isoformat()},
    EventKind.RESULT_ACCEPTED: {"finish_reason": "STOP", "text_length": 5, **USAGE},
    EventKind.CONTENT_ERASED: {"principal": "ann"},
}


def event(
    kind: EventKind, attributes: Mapping[str, object], *, at: Sequence = LATER, attempt: int = 1
) -> Event:
    text = "Grüße, 世界 🜁" if kind is EventKind.TOKEN_DELTA else None
    return Event(sequence=at, kind=kind, time=NOON, attempt_number=attempt, text=text, attributes=attributes)


@pytest.mark.parametrize("kind", list(EventKind))
def test_every_kind_comes_back_the_same(kind: EventKind) -> None:
    sent = event(kind, ATTRIBUTES[kind])
    message = pb.JobEvent.FromString(event_message(sent).SerializeToString())
    assert event_of(message) == sent


@pytest.mark.parametrize("kind", list(EventKind))
def test_every_kind_has_a_name_for_filters(kind: EventKind) -> None:
    assert kind_of(pb.JobEventKind.Value(f"JOB_EVENT_KIND_{kind}")) is kind


@pytest.mark.parametrize("number", [0, 99])
def test_a_filter_of_no_known_kind_is_none(number: int) -> None:
    assert kind_of(number) is None


def test_the_contract_and_the_store_have_the_same_kinds() -> None:
    in_contract = {name.removeprefix("JOB_EVENT_KIND_") for name in pb.JobEventKind.DESCRIPTOR.values_by_name}
    assert in_contract == {*EventKind, "UNSPECIFIED"}
    fields = {field.name.upper() for field in pb.JobEvent.DESCRIPTOR.oneofs_by_name["event"].fields}
    assert fields == set(EventKind)


def test_the_first_event_of_an_epoch_names_the_last_durable_one_before_it() -> None:
    changed = {"state": "RUNNING", "cause": "CLAIMED", "last_durable_sequence": sequence(1, 1)}
    sent = event(EventKind.STATE_CHANGED, changed, at=sequence(2, 1), attempt=0)
    message = event_message(sent)
    assert message.last_durable_sequence == sequence(1, 1)
    assert event_of(message) == sent


def test_the_first_event_of_a_job_has_nothing_before_it() -> None:
    created = {
        "state": "QUEUED",
        "cause": "CREATED",
        "last_durable_sequence": 0,
        "ready_time": "2026-11-30T12:00:00+00:00",
    }
    sent = event(EventKind.STATE_CHANGED, created, at=sequence(1, 1), attempt=0)
    assert event_of(event_message(sent)) == sent


def test_times_come_from_the_database_with_any_number_of_digits_and_any_offset() -> None:
    queued = {"state": "QUEUED", "cause": "CREATED", "ready_time": "2026-11-30T14:30:00.1234+02:30"}
    ready_time = event_message(event(EventKind.STATE_CHANGED, queued)).state_changed.ready_time
    assert ready_time.ToDatetime(UTC) == datetime(2026, 11, 30, 12, 0, 0, 123400, tzinfo=UTC)


def test_only_a_terminal_event_tells_what_was_captured() -> None:
    queued = {"state": "QUEUED", "cause": "RELEASED", "captured": "0"}
    assert not event_message(event(EventKind.STATE_CHANGED, queued)).state_changed.HasField("captured_amount")


def test_an_attempt_without_an_error_has_no_error_class() -> None:
    ended = {"outcome": "SUCCEEDED", "cause": "", "error_class": None}
    message = event_message(event(EventKind.ATTEMPT_ENDED, ended))
    assert message.attempt_ended.error_class == job_pb2.ERROR_CLASS_UNSPECIFIED


def test_a_kind_that_this_release_does_not_know_is_none() -> None:
    assert event_of(pb.JobEvent(sequence=7)) is None


def test_amounts_keep_every_digit() -> None:
    cost = {"amount": "123456789012.123456789", "basis": "REPORTED", "worst_case": "0"}
    message = event_message(event(EventKind.COST_RECORDED, cost)).cost_recorded.provider_cost
    assert amount_of(message.amount) == Decimal("123456789012.123456789")
    assert message.unknown_worst_case_amount == money_of(Decimal(0))
