"""A spec as a caller gave it: nothing filled in, in the one form that an idempotency key is compared by."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum

from jobs_store.states import UnknownOutcomePolicy


class Role(StrEnum):
    """Who said a message, as it is stored and as providers name it."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDraft:
    """One message; None: not given."""

    role: Role | None
    content: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecDraft:
    """A spec; None: not given. Durations in seconds, amounts in dollars scaled to 1e-9."""

    model: str | None = None
    messages: tuple[MessageDraft, ...] = ()
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    max_charge: Decimal | None = None
    provider_cost_limit: Decimal | None = None
    attempt_timeout: float | None = None
    max_attempts: int | None = None
    unknown_outcome_policy: UnknownOutcomePolicy | None = None
    priority: int | None = None
    schedule_time: datetime | None = None
    queue_timeout: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


def canonical(draft: SpecDraft) -> dict[str, object]:
    """The fields that were given, by the names of `idempotency.DEFAULTS`, each in one form only.

    Not the bytes of the wire: the order of fields and of labels, and how a number was written, do not count.
    """
    given: dict[str, object] = {
        "model": draft.model,
        "messages": [{"role": message.role, "content": message.content} for message in draft.messages],
        "max_output_tokens": draft.max_output_tokens,
        "temperature": _number(draft.temperature),
        "top_p": _number(draft.top_p),
        "stop": list(draft.stop) or None,
        "seed": draft.seed,
        "max_charge": _amount(draft.max_charge),
        "provider_cost_limit": _amount(draft.provider_cost_limit),
        "attempt_timeout": _number(draft.attempt_timeout),
        "max_attempts": draft.max_attempts,
        "unknown_outcome_policy": draft.unknown_outcome_policy,
        "priority": draft.priority,
        "schedule_time": _time(draft.schedule_time),
        "queue_timeout": _number(draft.queue_timeout),
        "labels": dict(sorted(draft.labels.items())) or None,
    }
    return {name: value for name, value in given.items() if value is not None}


def _number(value: float | None) -> float | None:
    return None if value is None else float(value) + 0.0  # -0.0 becomes 0.0


def _amount(amount: Decimal | None) -> str | None:
    return None if amount is None else f"{amount:.9f}"


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat(timespec="microseconds")
