"""Events of a job's log: what is written, and how it is read back.

Attributes by kind (all else is empty):
STATE_CHANGED state, cause, terminal, ready_time, captured, principal and reason of an operator's decision;
ATTEMPT_STARTED worker_id; ATTEMPT_SENT provider, provider_model; ATTEMPT_ENDED outcome, cause, error_class;
TOKEN_DELTA offset, token_count (its text stands beside them); USAGE_REPORTED input_tokens,
cached_input_tokens, output_tokens; COST_RECORDED amount, basis, worst_case; CANCEL_REQUESTED principal,
reason, time; PROVIDER_CALL_CLOSED close_time; RESULT_ACCEPTED finish_reason, usage as above, text_length;
CONTENT_ERASED principal. The first event of an epoch also has last_durable_sequence.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from jobs_store.attempts import AttemptEnd
from jobs_store.identifiers import Sequence
from jobs_store.rate_card import Usage
from jobs_store.states import Cause, FinishReason, JobState


class EventKind(StrEnum):
    """The kinds of events."""

    STATE_CHANGED = "STATE_CHANGED"
    ATTEMPT_STARTED = "ATTEMPT_STARTED"
    ATTEMPT_SENT = "ATTEMPT_SENT"
    ATTEMPT_ENDED = "ATTEMPT_ENDED"
    TOKEN_DELTA = "TOKEN_DELTA"  # noqa: S105 - a kind of event, not a password
    USAGE_REPORTED = "USAGE_REPORTED"
    COST_RECORDED = "COST_RECORDED"
    CANCEL_REQUESTED = "CANCEL_REQUESTED"
    PROVIDER_CALL_CLOSED = "PROVIDER_CALL_CLOSED"
    RESULT_ACCEPTED = "RESULT_ACCEPTED"
    CONTENT_ERASED = "CONTENT_ERASED"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    """An event before it has its place in the log. Without a time it gets the database's."""

    kind: EventKind
    time: datetime | None = None
    text: str | None = None
    attributes: Mapping[str, object] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """The form that the statements read."""
        return {
            "kind": self.kind,
            "time": None if self.time is None else self.time.isoformat(),
            "text": self.text,
            "attributes": dict(self.attributes),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event in its place."""

    sequence: Sequence
    kind: EventKind
    time: datetime
    attempt_number: int
    text: str | None
    attributes: Mapping[str, object]

    @property
    def ends_stream(self) -> bool:
        """True for the last event of a job that nobody retries."""
        return self.kind is EventKind.STATE_CHANGED and self.attributes.get("terminal") is True


def state_changed(state: JobState, cause: Cause | str, *, principal: str = "", reason: str = "") -> NewEvent:
    """The job is in `state` now. `principal`: the operator who decided it, and why."""
    attributes: dict[str, object] = {"state": state, "cause": str(cause)}
    if state.terminal:
        attributes["terminal"] = True
    if principal:
        attributes |= {"principal": principal, "reason": reason}
    return NewEvent(kind=EventKind.STATE_CHANGED, attributes=attributes)


def attempt_ended(end: AttemptEnd) -> tuple[NewEvent, ...]:
    """An attempt ended, and what it cost if it cost anything."""
    ended = NewEvent(
        kind=EventKind.ATTEMPT_ENDED,
        attributes={"outcome": end.outcome, "cause": end.cause, "error_class": end.error_class},
    )
    if end.cost.basis is None:
        return (ended,)
    cost = {"amount": str(end.cost.amount), "basis": end.cost.basis, "worst_case": str(end.cost.worst_case)}
    return (NewEvent(kind=EventKind.COST_RECORDED, attributes=cost), ended)


def cancel_requested(*, principal: str, reason: str, time: datetime | None = None) -> NewEvent:
    """A user asked to cancel."""
    attributes = {"principal": principal, "reason": reason}
    return NewEvent(kind=EventKind.CANCEL_REQUESTED, time=time, attributes=attributes)


def provider_call_closed(close_time: datetime) -> NewEvent:
    """The provider's connection was closed after a cancel."""
    return NewEvent(
        kind=EventKind.PROVIDER_CALL_CLOSED,
        time=close_time,
        attributes={"close_time": close_time.isoformat()},
    )


def result_accepted(finish_reason: FinishReason, usage: Usage, text_length: int) -> NewEvent:
    """The result was accepted."""
    return NewEvent(
        kind=EventKind.RESULT_ACCEPTED,
        attributes={"finish_reason": finish_reason, "text_length": text_length, **usage_attributes(usage)},
    )


def usage_attributes(usage: Usage) -> dict[str, object]:
    """The attributes of a usage."""
    return {
        "input_tokens": usage.input_tokens,
        "cached_input_tokens": usage.cached_input_tokens,
        "output_tokens": usage.output_tokens,
    }
