"""A job's spec from flags and from a file in proto JSON. Pure; what is wrong names the flag or the field."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from hourglass.jobs.v1.job_pb2 import JobSpec, Message, Role, UnknownOutcomePolicy
from jobsctl.inputs import money, parsed
from servicekit.wire_time import duration_of, timestamp_of


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecFlags:
    """What the flags said; None and empty for what they did not. Seconds and dollars."""

    model: str | None = None
    system: str | None = None
    prompt: str | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: Sequence[str] = ()
    seed: int | None = None
    max_charge: Decimal | None = None
    provider_cost_limit: Decimal | None = None
    attempt_timeout: float | None = None
    max_attempts: int | None = None
    on_unknown: str | None = None
    priority: int | None = None
    schedule_time: datetime | None = None
    queue_timeout: float | None = None
    labels: Mapping[str, str] | None = None


def spec_of(flags: SpecFlags, text: str | None) -> JobSpec:
    """The spec of a file's text, changed by the flags. Raises Failure when something cannot be read."""
    spec = parsed(text, JobSpec(), "--spec") if text is not None else JobSpec()
    _set_scalars(spec, flags)
    _set_sampling(spec, flags)
    _set_limits(spec, flags)
    if flags.prompt is not None:
        del spec.messages[:]
        spec.messages.extend(messages_of(flags))
    spec.labels.update(flags.labels or {})
    return spec


def messages_of(flags: SpecFlags) -> list[Message]:
    """The conversation of --system and --prompt."""
    said = ((Role.ROLE_SYSTEM, flags.system), (Role.ROLE_USER, flags.prompt))
    return [Message(role=role, content=content) for role, content in said if content is not None]


def _set_scalars(spec: JobSpec, flags: SpecFlags) -> None:
    for field, value in (
        ("model", flags.model),
        ("max_output_token_count", flags.max_output_tokens),
        ("max_attempt_count", flags.max_attempts),
        ("priority", flags.priority),
    ):
        if value is not None:
            setattr(spec, field, value)
    if flags.on_unknown is not None:
        name = f"UNKNOWN_OUTCOME_POLICY_{flags.on_unknown.upper()}"
        spec.unknown_outcome_policy = UnknownOutcomePolicy.Value(name)


def _set_sampling(spec: JobSpec, flags: SpecFlags) -> None:
    if flags.temperature is not None:
        spec.sampling.temperature = flags.temperature
    if flags.top_p is not None:
        spec.sampling.top_p = flags.top_p
    if flags.seed is not None:
        spec.sampling.seed = flags.seed
    if flags.stop:
        spec.sampling.stop_sequences.extend(flags.stop)


def _set_limits(spec: JobSpec, flags: SpecFlags) -> None:
    if flags.max_charge is not None:
        spec.max_charge.CopyFrom(money("--max-charge", flags.max_charge))
    if flags.provider_cost_limit is not None:
        spec.provider_cost_limit.CopyFrom(money("--provider-cost-limit", flags.provider_cost_limit))
    if flags.attempt_timeout is not None:
        spec.attempt_timeout_duration.CopyFrom(duration_of(flags.attempt_timeout))
    if flags.queue_timeout is not None:
        spec.queue_timeout_duration.CopyFrom(duration_of(flags.queue_timeout))
    if flags.schedule_time is not None:
        spec.schedule_time.CopyFrom(timestamp_of(flags.schedule_time))
