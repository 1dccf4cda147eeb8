"""JobSpec messages to drafts. What cannot even be read becomes a violation like any other."""

from collections.abc import Callable, Iterable
from datetime import datetime
from decimal import Decimal
from typing import Any, TypeVar

from hourglass.jobs.v1 import job_pb2 as pb
from jobs_service.domain.draft import MessageDraft, Role, SpecDraft
from jobs_service.domain.faults import Faults
from jobs_store.states import UnknownOutcomePolicy
from servicekit.wire_money import MalformedMoney, amount_of
from servicekit.wire_time import MalformedTime, datetime_of, seconds_of
from wire.enums import from_wire

Value = TypeVar("Value")


def read_spec(spec: pb.JobSpec, faults: Faults) -> SpecDraft:
    """The draft of a spec, field by field; an absent field is None."""
    sampling = spec.sampling
    return SpecDraft(
        model=_given(spec, "model"),
        messages=read_messages(spec.messages),
        max_output_tokens=_given(spec, "max_output_token_count"),
        temperature=_given(sampling, "temperature"),
        top_p=_given(sampling, "top_p"),
        stop=tuple(sampling.stop_sequences),
        seed=_given(sampling, "seed"),
        max_charge=_read_money(spec, "max_charge", faults),
        provider_cost_limit=_read_money(spec, "provider_cost_limit", faults),
        attempt_timeout=_read(spec, "attempt_timeout_duration", seconds_of, faults),
        max_attempts=_given(spec, "max_attempt_count"),
        unknown_outcome_policy=_read_policy(spec, faults),
        priority=_given(spec, "priority"),
        schedule_time=_read_schedule(spec, faults),
        queue_timeout=_read(spec, "queue_timeout_duration", seconds_of, faults),
        labels=dict(spec.labels),
    )


def read_messages(messages: Iterable[pb.Message]) -> tuple[MessageDraft, ...]:
    """The drafts of a conversation; an unknown role is None."""
    return tuple(
        MessageDraft(role=from_wire(pb.Role, message.role, Role), content=_given(message, "content"))
        for message in messages
    )


def _read_money(spec: pb.JobSpec, field: str, faults: Faults) -> Decimal | None:
    return _read(spec, field, amount_of, faults)


def _read_schedule(spec: pb.JobSpec, faults: Faults) -> datetime | None:
    return _read(spec, "schedule_time", datetime_of, faults)


def _read_policy(spec: pb.JobSpec, faults: Faults) -> UnknownOutcomePolicy | None:
    policy = from_wire(pb.UnknownOutcomePolicy, spec.unknown_outcome_policy, UnknownOutcomePolicy)
    if policy is None and spec.unknown_outcome_policy != pb.UNKNOWN_OUTCOME_POLICY_UNSPECIFIED:
        faults.add("unknown_outcome_policy", f"has no value {spec.unknown_outcome_policy}")
    return policy


def _given(message: Any, field: str) -> Any:
    return getattr(message, field) if message.HasField(field) else None


def _read(message: Any, field: str, convert: Callable[[Any], Value], faults: Faults) -> Value | None:
    if not message.HasField(field):
        return None
    try:
        return convert(getattr(message, field))
    except (MalformedMoney, MalformedTime) as error:
        faults.add(field, str(error))
        return None
