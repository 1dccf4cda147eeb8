"""What an attempt came to, as the run itself knows it: outcome, cost and how far it is known. Pure.

Before the start step nothing was sent, so nothing is owed. After it, an ending without the provider's answer
is UNKNOWN, whatever the cause; but a call that provably never left is FAILED, and one closed for a user's
cancel is CANCELLED, at a cost that nobody knows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, assert_never

from jobs_store.attempts import NO_USAGE, AttemptEnd, ProviderCost
from jobs_store.rate_card import MAX_TOKENS, Usage
from jobs_store.states import AttemptOutcome, CostBasis, ErrorClass, FinishReason

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from decimal import Decimal

    from jobs_store.rate_card import RateCard
    from jobs_store.runs import Claimed

COMPLETED: Final = "COMPLETED"
WORKER_ERROR: Final = "WORKER_ERROR"
"""Our own code failed: the log has the traceback."""
CUT_OFF: Final = "CUT_OFF"
"""The lease was not renewed for so long that no call may start under it."""
UNROUTED_MODEL: Final = "UNROUTED_MODEL"

_FINISH_REASONS: Final[Mapping[str, FinishReason]] = {
    "stop": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
}
_REFUSED_UNCOUNTED: Final = frozenset({401, 403, 429})


class Stop(StrEnum):
    """Why a run is told to end before its provider does."""

    CANCEL_REQUESTED = "USER_CANCEL"
    LEASE_LOST = "LEASE_LOST"
    SHUTDOWN = "SHUTDOWN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsent:
    """The provider was not called. `crashed`: the payload, or our code, is at fault."""

    cause: str
    stop: Stop | None = None
    crashed: bool = False

    @classmethod
    def because_of(cls, stop: Stop) -> Unsent:
        """The run was told to stop first."""
        return cls(cause=stop, stop=stop)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The provider gave its whole answer. `usage` is None when it did not count."""

    finish_reason: FinishReason
    provider_request_id: str
    usage: Usage | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The call failed. `sent` is False only when it is proven that no byte of the request left."""

    cause: str
    error_class: ErrorClass
    sent: bool = True
    message: str = ""
    provider_request_id: str = ""
    http_status: int | None = None
    usage: Usage | None = None
    retry_after: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """The call was closed before its end, because the run was told to stop."""

    stop: Stop
    close_time: datetime


CallEnd = Unsent | Answered | Failed | Closed


def finish_reason_of(word: str) -> FinishReason:
    """Why a model stopped, of its provider's word for it."""
    return _FINISH_REASONS.get(word, FinishReason.OTHER)


def stop_of(end: CallEnd) -> Stop | None:
    """What stopped the run, if something did."""
    return end.stop if isinstance(end, Unsent | Closed) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """What of the answer stands in the run's log. `tokens`: the provider's chunks, a token each at least."""

    text: str = ""
    tokens: int = 0
    first_token_time: datetime | None = None


def attempt_end(run: Claimed, end: CallEnd, delivered: Delivered) -> AttemptEnd:
    """The attempt's last words."""
    match end:
        case Unsent(cause=cause):
            return AttemptEnd(outcome=AttemptOutcome.NOT_SENT, cause=cause, counted=False)
        case Answered():
            attempt = _answered(run, end, delivered)
        case Failed():
            attempt = _failed(run, end, delivered)
        case Closed(stop=stop):
            attempt = _closed(run, stop)
        case _:
            assert_never(end)
    return replace(attempt, first_token_time=delivered.first_token_time)


def charge_of_answer(card: RateCard, usage: Usage) -> Decimal:
    """What a tenant pays for an accepted answer, in dollars, at the card stored with the job."""
    return card.amount(usage)


def not_accepted(attempt: AttemptEnd) -> AttemptEnd:
    """The same attempt when its job was cancelled: an answer that nobody accepts is no success."""
    if attempt.outcome is AttemptOutcome.SUCCEEDED:
        return replace(attempt, outcome=AttemptOutcome.CANCELLED, cause=Stop.CANCEL_REQUESTED)
    return attempt


def _answered(run: Claimed, end: Answered, delivered: Delivered) -> AttemptEnd:
    usage, basis = _usage(run, end.usage, delivered)
    return AttemptEnd(
        outcome=AttemptOutcome.SUCCEEDED,
        cause=COMPLETED,
        counted=True,
        provider_request_id=end.provider_request_id,
        usage=usage,
        cost=ProviderCost.known(run.provider_rate_card, usage, basis),
    )


def _failed(run: Claimed, end: Failed, delivered: Delivered) -> AttemptEnd:
    unknown = end.sent and end.error_class is ErrorClass.UNKNOWN
    usage, cost = _cost_of_failure(run, end, delivered)
    return AttemptEnd(
        outcome=AttemptOutcome.UNKNOWN if unknown else AttemptOutcome.FAILED,
        cause=end.cause,
        counted=_counted(end),
        error_class=end.error_class,
        error_message=end.message,
        provider_request_id=end.provider_request_id,
        usage=usage,
        cost=cost,
    )


def _counted(end: Failed) -> bool:
    """What is refused because of our account, or because of our rate, says nothing about the job."""
    ours = end.error_class is ErrorClass.PLATFORM or end.http_status in _REFUSED_UNCOUNTED
    return end.sent and not ours


def _cost_of_failure(run: Claimed, end: Failed, delivered: Delivered) -> tuple[Usage, ProviderCost]:
    if not end.sent:
        return NO_USAGE, ProviderCost.nothing()
    if end.usage is None and end.error_class is ErrorClass.UNKNOWN:
        return NO_USAGE, ProviderCost.unknown(run.terms.attempt_worst_case)
    if end.usage is None and delivered.tokens == 0:
        return NO_USAGE, ProviderCost.nothing()
    usage, basis = _usage(run, end.usage, delivered)
    return usage, ProviderCost.known(run.provider_rate_card, usage, basis)


def _closed(run: Claimed, stop: Stop) -> AttemptEnd:
    cancelled = stop is Stop.CANCEL_REQUESTED
    return AttemptEnd(
        outcome=AttemptOutcome.CANCELLED if cancelled else AttemptOutcome.UNKNOWN,
        cause=stop,
        counted=True,
        error_class=None if cancelled else ErrorClass.UNKNOWN,
        cost=ProviderCost.unknown(run.terms.attempt_worst_case),
    )


def _usage(run: Claimed, reported: Usage | None, delivered: Delivered) -> tuple[Usage, CostBasis]:
    if reported is not None:
        return reported, CostBasis.REPORTED
    estimate = Usage(
        input_tokens=min(run.input_token_estimate, MAX_TOKENS),
        output_tokens=min(delivered.tokens, MAX_TOKENS),
    )
    return estimate, CostBasis.ESTIMATED
