"""Events of a job's log to and from the contract's JobEvent."""

from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp
from google.type.money_pb2 import Money

from hourglass.jobs.v1 import event_pb2 as pb
from hourglass.jobs.v1 import job_pb2
from jobs_store.events import Event, EventKind
from jobs_store.identifiers import Sequence
from jobs_store.states import AttemptOutcome, CostBasis, ErrorClass, FinishReason, JobState
from servicekit.wire_money import amount_of, money_of
from servicekit.wire_time import datetime_of, timestamp_of
from wire.enums import from_wire, to_wire

LAST_DURABLE: Final = "last_durable_sequence"

Attributes = Mapping[str, Any]


def event_message(event: Event) -> pb.JobEvent:
    """The message of an event."""
    message = pb.JobEvent(
        sequence=event.sequence,
        event_time=timestamp_of(event.time),
        attempt_number=event.attempt_number,
        last_durable_sequence=int(str(event.attributes.get(LAST_DURABLE, 0))),
    )
    _WRITERS[event.kind](message, event.attributes, event.text or "")
    return message


def event_of(message: pb.JobEvent) -> Event | None:
    """The event of a message; None for a kind that this release does not know.

    Raises MalformedTime, MalformedMoney.
    """
    kind = _kind_of(message)
    if kind is None:
        return None
    attributes = _READERS[kind](message)
    if message.last_durable_sequence or _is_first_of_epoch(message.sequence):
        attributes[LAST_DURABLE] = message.last_durable_sequence
    return Event(
        sequence=Sequence(message.sequence),
        kind=kind,
        time=datetime_of(message.event_time),
        attempt_number=message.attempt_number,
        text=message.token_delta.text if kind is EventKind.TOKEN_DELTA else None,
        attributes={name: value for name, value in attributes.items() if value is not None},
    )


def kind_of(number: int) -> EventKind | None:
    """The kind that a filter names; None for UNSPECIFIED and for an unknown one."""
    return from_wire(pb.JobEventKind, number, EventKind)


def _kind_of(message: pb.JobEvent) -> EventKind | None:
    field = message.WhichOneof("event")
    return None if field is None else EventKind(field.upper())


def _is_first_of_epoch(sequence: int) -> bool:
    return sequence & 0xFFFFFFFF == 1


def _write_state_changed(message: pb.JobEvent, attributes: Attributes, _text: str) -> None:
    changed = message.state_changed
    changed.state = to_wire(job_pb2.JobState, attributes["state"])
    changed.cause = attributes["cause"]
    changed.terminal = bool(attributes.get("terminal"))
    changed.principal = attributes.get("principal") or ""
    changed.reason = attributes.get("reason") or ""
    if (ready_time := attributes.get("ready_time")) is not None:
        changed.ready_time.CopyFrom(_timestamp(ready_time))
    if changed.terminal and (captured := attributes.get("captured")) is not None:
        changed.captured_amount.CopyFrom(_money(captured))


def _read_state_changed(message: pb.JobEvent) -> dict[str, object]:
    changed = message.state_changed
    return {
        "state": from_wire(job_pb2.JobState, changed.state, JobState),
        "cause": changed.cause,
        "terminal": changed.terminal or None,
        "principal": changed.principal or None,
        "reason": changed.reason or None,
        "ready_time": _time_text(changed.ready_time) if changed.HasField("ready_time") else None,
        "captured": _amount_text(changed.captured_amount) if changed.HasField("captured_amount") else None,
    }


def _write_attempt_started(message: pb.JobEvent, attributes: Attributes, _text: str) -> None:
    message.attempt_started.worker_id = attributes["worker_id"]


def _read_attempt_started(message: pb.JobEvent) -> dict[str, object]:
    return {"worker_id": message.attempt_started.worker_id}


def _write_attempt_sent(message: pb.JobEvent, attributes: Attributes, _text: str) -> None:
    message.attempt_sent.provider = attributes["provider"]
    message.attempt_sent.provider_model = attributes["provider_model"]


def _read_attempt_sent(message: pb.JobEvent) -> dict[str, object]:
    sent = message.attempt_sent
    return {"provider": sent.provider, "provider_model": sent.provider_model}


def _write_attempt_ended(message: pb.JobEvent, attributes: Attributes, _text: str) -> None:
    ended = message.attempt_ended
    ended.outcome = to_wire(job_pb2.AttemptOutcome, attributes["outcome"])
    ended.cause = attributes["cause"]
    ended.error_class = to_wire(job_pb2.ErrorClass, attributes.get("error_class"))


def _read_attempt_ended(message: pb.JobEvent) -> dict[str, object]:
    ended = message.attempt_ended
    return {
        "outcome": from_wire(job_pb2.AttemptOutcome, ended.outcome, AttemptOutcome),
        "cause": ended.cause,
        "error_class": from_wire(job_pb2.ErrorClass, ended.error_class, ErrorClass),
    }


def _write_token_delta(message: pb.JobEvent, attributes: Attributes, text: str) -> None:
    message.token_delta.text = text
    message.token_delta.offset = attributes.get("offset", 0)
    message.token_delta.token_count = attributes.get("token_count", 0)


def _read_token_delta(message: pb.JobEvent) -> dict[str, object]:
    return {"offset": message.token_delta.offset, "token_count": message.token_delta.token_count}


def _write_usage_reported(message: pb.JobEvent, attributes: Attributes, _text: str) -> None:
    message.usage_reported.usage.CopyFrom(_usage_message(attributes))


def _read_usage_reported(message: pb.JobEvent) -> dict[str, object]:
    return _usage_attributes(message.usage_reported.usage)


def _write_cost_recorded(message: pb.JobEvent, attributes: Attributes, _text: str) -> None:
    cost = message.cost_recorded.provider_cost
    cost.amount.CopyFrom(_money(attributes["amount"]))
    cost.basis = to_wire(job_pb2.CostBasis, attributes.get("basis"))
    cost.unknown_worst_case_amount.CopyFrom(_money(attributes["worst_case"]))


def _read_cost_recorded(message: pb.JobEvent) -> dict[str, object]:
    cost = message.cost_recorded.provider_cost
    return {
        "amount": _amount_text(cost.amount),
        "basis": from_wire(job_pb2.CostBasis, cost.basis, CostBasis),
        "worst_case": _amount_text(cost.unknown_worst_case_amount),
    }


def _write_cancel_requested(message: pb.JobEvent, attributes: Attributes, _text: str) -> None:
    message.cancel_requested.principal = attributes["principal"]
    message.cancel_requested.reason = attributes.get("reason") or ""


def _read_cancel_requested(message: pb.JobEvent) -> dict[str, object]:
    asked = message.cancel_requested
    return {"principal": asked.principal, "reason": asked.reason}


def _write_provider_call_closed(message: pb.JobEvent, attributes: Attributes, _text: str) -> None:
    message.provider_call_closed.close_time.CopyFrom(_timestamp(attributes["close_time"]))


def _read_provider_call_closed(message: pb.JobEvent) -> dict[str, object]:
    return {"close_time": _time_text(message.provider_call_closed.close_time)}


def _write_result_accepted(message: pb.JobEvent, attributes: Attributes, _text: str) -> None:
    accepted = message.result_accepted
    accepted.finish_reason = to_wire(job_pb2.FinishReason, attributes["finish_reason"])
    accepted.usage.CopyFrom(_usage_message(attributes))
    accepted.text_length = attributes.get("text_length", 0)


def _read_result_accepted(message: pb.JobEvent) -> dict[str, object]:
    accepted = message.result_accepted
    return {
        "finish_reason": from_wire(job_pb2.FinishReason, accepted.finish_reason, FinishReason),
        "text_length": accepted.text_length,
        **_usage_attributes(accepted.usage),
    }


def _write_content_erased(message: pb.JobEvent, attributes: Attributes, _text: str) -> None:
    message.content_erased.principal = attributes["principal"]


def _read_content_erased(message: pb.JobEvent) -> dict[str, object]:
    return {"principal": message.content_erased.principal}


def _usage_message(attributes: Attributes) -> job_pb2.TokenUsage:
    return job_pb2.TokenUsage(
        input_token_count=attributes.get("input_tokens", 0),
        cached_input_token_count=attributes.get("cached_input_tokens", 0),
        output_token_count=attributes.get("output_tokens", 0),
    )


def _usage_attributes(usage: job_pb2.TokenUsage) -> dict[str, object]:
    return {
        "input_tokens": usage.input_token_count,
        "cached_input_tokens": usage.cached_input_token_count,
        "output_tokens": usage.output_token_count,
    }


def _timestamp(text: str) -> Timestamp:
    return timestamp_of(datetime.fromisoformat(text))


def _time_text(timestamp: Timestamp) -> str:
    return datetime_of(timestamp).isoformat()


def _money(text: object) -> Money:
    return money_of(Decimal(str(text)))


def _amount_text(money: Money) -> str:
    return f"{amount_of(money):f}"


_WRITERS: Final[Mapping[EventKind, Callable[[pb.JobEvent, Attributes, str], None]]] = {
    EventKind.STATE_CHANGED: _write_state_changed,
    EventKind.ATTEMPT_STARTED: _write_attempt_started,
    EventKind.ATTEMPT_SENT: _write_attempt_sent,
    EventKind.ATTEMPT_ENDED: _write_attempt_ended,
    EventKind.TOKEN_DELTA: _write_token_delta,
    EventKind.USAGE_REPORTED: _write_usage_reported,
    EventKind.COST_RECORDED: _write_cost_recorded,
    EventKind.CANCEL_REQUESTED: _write_cancel_requested,
    EventKind.PROVIDER_CALL_CLOSED: _write_provider_call_closed,
    EventKind.RESULT_ACCEPTED: _write_result_accepted,
    EventKind.CONTENT_ERASED: _write_content_erased,
}
_READERS: Final[Mapping[EventKind, Callable[[pb.JobEvent], dict[str, object]]]] = {
    EventKind.STATE_CHANGED: _read_state_changed,
    EventKind.ATTEMPT_STARTED: _read_attempt_started,
    EventKind.ATTEMPT_SENT: _read_attempt_sent,
    EventKind.ATTEMPT_ENDED: _read_attempt_ended,
    EventKind.TOKEN_DELTA: _read_token_delta,
    EventKind.USAGE_REPORTED: _read_usage_reported,
    EventKind.COST_RECORDED: _read_cost_recorded,
    EventKind.CANCEL_REQUESTED: _read_cancel_requested,
    EventKind.PROVIDER_CALL_CLOSED: _read_provider_call_closed,
    EventKind.RESULT_ACCEPTED: _read_result_accepted,
    EventKind.CONTENT_ERASED: _read_content_erased,
}
