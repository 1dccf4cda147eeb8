"""Quotes: what is asked, and what each candidate came to."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from jobs_service.domain.draft import MessageDraft
from jobs_service.domain.faults import Faults
from jobs_service.domain.limits import LONGEST_MODEL, MOST_QUOTED_MODELS, Limits
from jobs_service.domain.pricing import Bounds
from jobs_service.domain.spec import check_messages, default_max_output_tokens
from jobs_store.identifiers import QuoteId
from jobs_store.quotes import QuotedModel
from jobs_store.rate_card import MAX_TOKENS
from jobs_store.token_bound import input_token_bound


class LineStatus(StrEnum):
    """Whether something was answered, failed, or was not asked."""

    OK = "OK"
    UNAVAILABLE = "UNAVAILABLE"
    SKIPPED = "SKIPPED"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuoteDraft:
    """A quote as a caller asked for it; None: not given."""

    models: Sequence[str]
    messages: Sequence[MessageDraft]
    input_token_bound: int | None
    max_output_tokens: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuoteQuestion:
    """A quote that was checked."""

    models: Sequence[str]
    bounds: Bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What one candidate came to. `priced` only when OK, `reason` only otherwise."""

    model: str
    status: LineStatus
    reason: str = ""
    priced: QuotedModel | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How busy a worker was, or why nobody knows."""

    status: LineStatus
    reason: str = ""
    free_slots: int = 0
    slots: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Quoted:
    """The answer to a quote; `available` in dollars."""

    quote_id: QuoteId
    bounds: Bounds
    lines: Sequence[Line]
    expire_time: datetime
    available: Decimal
    load: Load


def checked_question(draft: QuoteDraft, faults: Faults, *, limits: Limits) -> QuoteQuestion:
    """The question of a draft. Whatever is wrong goes into `faults`."""
    _check_models(draft.models, faults)
    _check_input(draft, faults, limits)
    output = draft.max_output_tokens
    if output is None:
        output = default_max_output_tokens()
    faults.check_range("max_output_token_count", output, 1, limits.max_output_tokens)
    bound = draft.input_token_bound
    if bound is None:
        bound = input_token_bound(message.content or "" for message in draft.messages)
    return QuoteQuestion(models=draft.models, bounds=Bounds(input_tokens=bound, output_tokens=output))


def _check_models(models: Sequence[str], faults: Faults) -> None:
    if not 1 <= len(models) <= MOST_QUOTED_MODELS:
        faults.add("models", f"must have 1 to {MOST_QUOTED_MODELS} models, has {len(models)}")
    for index, model in enumerate(models[:MOST_QUOTED_MODELS]):
        faults.check_text(f"models[{index}]", model, longest=LONGEST_MODEL)
        if model in models[:index]:
            faults.add(f"models[{index}]", "is in the list twice")


def _check_input(draft: QuoteDraft, faults: Faults, limits: Limits) -> None:
    if draft.input_token_bound is None:
        check_messages(draft.messages, faults, limits)
        return
    faults.check_range("input_token_bound", draft.input_token_bound, 0, MAX_TOKENS)
    if draft.messages:
        faults.add("input_token_bound", "must be absent when there are messages")
