"""A spec that was checked, with every default filled in."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final, TypeVar

from jobs_service.domain.draft import MessageDraft, SpecDraft
from jobs_service.domain.faults import Faults
from jobs_service.domain.limits import HIGHEST_AMOUNT, LONGEST_MODEL, Limits
from jobs_store.idempotency import DEFAULTS, HASH_VERSION
from jobs_store.states import UnknownOutcomePolicy
from jobs_store.token_bound import input_token_bound

_LABEL_KEY: Final = re.compile(r"[a-z0-9_.-]{1,63}")
_BYTES_PER_TOKEN: Final = 4
_TOKENS_PER_MESSAGE: Final = 4
_LOWEST_SEED, _HIGHEST_SEED = -(2**63), 2**63 - 1

Value = TypeVar("Value", int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """What is to be done. Durations in seconds, amounts in dollars; None where the price decides."""

    model: str
    messages: Sequence[Mapping[str, str]]
    max_output_tokens: int
    sampling: Mapping[str, object]
    max_charge: Decimal | None
    provider_cost_limit: Decimal | None
    attempt_timeout: float
    max_attempts: int
    unknown_outcome_policy: UnknownOutcomePolicy | None
    priority: int
    schedule_time: datetime | None
    queue_timeout: float
    labels: Mapping[str, str]

    @property
    def input_token_bound(self) -> int:
        """Tokens that the messages have at most."""
        return input_token_bound(message["content"] for message in self.messages)

    @property
    def input_token_estimate(self) -> int:
        """Tokens that the messages have about; never above the bound."""
        return estimate_of([message["content"] for message in self.messages])


def estimate_of(contents: Sequence[str]) -> int:
    """About four bytes a token, and a little around each message; never above `input_token_bound`."""
    size = sum(len(content.encode()) for content in contents)
    estimate = math.ceil(size / _BYTES_PER_TOKEN) + _TOKENS_PER_MESSAGE * len(contents)
    return min(estimate, input_token_bound(contents))


def checked_spec(draft: SpecDraft, faults: Faults, *, limits: Limits, now: datetime) -> Spec:
    """The spec of a draft. Whatever is wrong goes into `faults`; the answer counts only if nothing did."""
    faults.check_text("model", draft.model or "", longest=LONGEST_MODEL)
    check_messages(draft.messages, faults, limits)
    _check_sampling(draft, faults.within("sampling"), limits)
    _check_amounts(draft, faults)
    _check_labels(draft.labels, faults.within("labels"), limits)
    spec = _filled_in(draft)
    _check_numbers(spec, faults, limits)
    if spec.schedule_time is not None and spec.schedule_time > now + timedelta(seconds=limits.schedule_ahead):
        faults.add("schedule_time", f"must be at most {limits.schedule_ahead / 86400:g} days ahead")
    return spec


def check_messages(messages: Sequence[MessageDraft], faults: Faults, limits: Limits) -> None:
    """At least one message, each with a role and a content, all of them within the payload's limit."""
    if not messages:
        faults.add("messages", "must have at least one message")
    faults.check_count("messages", messages, limits.messages)
    for index, message in enumerate(messages[: limits.messages]):
        _check_message(message, faults.within(f"messages[{index}]"))
    size = sum(len(message.content.encode()) for message in messages if message.content)
    if size > limits.payload_bytes:
        faults.add("messages", f"must have at most {limits.payload_bytes} bytes together, have {size}")


def _check_message(message: MessageDraft, faults: Faults) -> None:
    if message.role is None:
        faults.add("role", "is required: ROLE_SYSTEM, ROLE_USER or ROLE_ASSISTANT")
    if message.content is None:
        faults.add("content", "is required")
    else:
        faults.check_storable("content", message.content)


def _check_sampling(draft: SpecDraft, faults: Faults, limits: Limits) -> None:
    if draft.temperature is not None:
        faults.check_range("temperature", draft.temperature, 0, 2)
    if draft.top_p is not None:
        faults.check_range("top_p", draft.top_p, 0, 1, open_below=True)
    if draft.seed is not None:
        faults.check_range("seed", draft.seed, _LOWEST_SEED, _HIGHEST_SEED)
    faults.check_count("stop_sequences", draft.stop, limits.stop_sequences)
    for index, text in enumerate(draft.stop[: limits.stop_sequences]):
        faults.check_text(f"stop_sequences[{index}]", text, longest=limits.stop_sequence_characters)


def _check_amounts(draft: SpecDraft, faults: Faults) -> None:
    for name in ("max_charge", "provider_cost_limit"):
        amount: Decimal | None = getattr(draft, name)
        if amount is not None and not 0 <= amount <= HIGHEST_AMOUNT:
            faults.add(name, f"must be 0 to {HIGHEST_AMOUNT:f} USD, is {amount:f}")


def _check_labels(labels: Mapping[str, str], faults: Faults, limits: Limits) -> None:
    faults.check_count("", labels, limits.labels)
    for key, value in sorted(labels.items())[: limits.labels]:
        named = f"[{key[:80]!r}]"
        if not _LABEL_KEY.fullmatch(key):
            faults.add(named, f"keys must match {_LABEL_KEY.pattern}")
        if len(value.encode()) > limits.label_value_bytes:
            faults.add(named, f"values must have at most {limits.label_value_bytes} bytes")
        faults.check_storable(named, value)


def _check_numbers(spec: Spec, faults: Faults, limits: Limits) -> None:
    faults.check_range("max_output_token_count", spec.max_output_tokens, 1, limits.max_output_tokens)
    faults.check_range(
        "attempt_timeout_duration", spec.attempt_timeout, 0, limits.attempt_timeout, open_below=True
    )
    faults.check_range("max_attempt_count", spec.max_attempts, 1, limits.max_attempts)
    faults.check_range("queue_timeout_duration", spec.queue_timeout, 0, limits.queue_timeout, open_below=True)
    faults.check_range("priority", spec.priority, -limits.highest_priority, limits.highest_priority)


def _filled_in(draft: SpecDraft) -> Spec:
    return Spec(
        model=draft.model or "",
        messages=tuple(
            {"role": str(message.role or ""), "content": message.content or ""} for message in draft.messages
        ),
        max_output_tokens=_or_default(draft.max_output_tokens, "max_output_tokens", int),
        sampling=_sampling(draft),
        max_charge=draft.max_charge,
        provider_cost_limit=draft.provider_cost_limit,
        attempt_timeout=_or_default(draft.attempt_timeout, "attempt_timeout", float),
        max_attempts=_or_default(draft.max_attempts, "max_attempts", int),
        unknown_outcome_policy=draft.unknown_outcome_policy,
        priority=_or_default(draft.priority, "priority", int),
        schedule_time=draft.schedule_time,
        queue_timeout=_or_default(draft.queue_timeout, "queue_timeout", float),
        labels=dict(sorted(draft.labels.items())),
    )


def _sampling(draft: SpecDraft) -> Mapping[str, object]:
    given: Mapping[str, object] = {
        "temperature": draft.temperature,
        "top_p": draft.top_p,
        "stop": list(draft.stop) or None,
        "seed": draft.seed,
    }
    return {name: value for name, value in given.items() if value is not None}


def _or_default(value: Value | None, name: str, kind: type[Value]) -> Value:
    """The value, or the default that a key made now is compared by."""
    if value is not None:
        return value
    default = DEFAULTS[HASH_VERSION][name]
    assert isinstance(default, kind)
    return default


def default_max_output_tokens() -> int:
    """The most output tokens of a request that does not say."""
    return _or_default(None, "max_output_tokens", int)
