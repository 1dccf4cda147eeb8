"""A short call that needs no job: what is asked, whether it can fit, and what comes back."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Final

from jobs_service.domain.draft import SpecDraft
from jobs_service.domain.errors import UseAJob
from jobs_service.domain.faults import Faults
from jobs_service.domain.limits import Limits
from jobs_service.domain.spec import Spec, checked_spec
from jobs_store.attempts import ProviderCost
from jobs_store.identifiers import CallId, TenantId
from jobs_store.rate_card import RateCard, Usage
from jobs_store.states import FinishReason

DEFAULT_MAX_OUTPUT_TOKENS: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Speeds:
    """How fast answers are taken to come, for the estimate.

    first_token: seconds until a provider begins. tokens_per_second: afterwards; `of_lane` knows better.
    """

    first_token: float
    tokens_per_second: float
    of_lane: Mapping[str, float] = field(default_factory=dict)

    def seconds_for(self, lane: str, output_tokens: int) -> float:
        """How long the longest answer is expected to take."""
        return self.first_token + output_tokens / self.of_lane.get(lane, self.tokens_per_second)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCall:
    """What a worker is asked to do."""

    tenant: TenantId
    call_id: CallId
    spec: Spec
    provider_rate_card: RateCard
    input_token_estimate: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSent:
    """A worker calls the provider now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A piece of the answer. tokens: at least so many; offset: code points that came before it."""

    text: str
    offset: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The answer is whole. usage: the provider's count, or the worker's, as the basis of the cost says."""

    finish_reason: FinishReason
    usage: Usage
    cost: ProviderCost
    provider_request_id: str


WorkerMessage = CallSent | Text | Answered


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The money is set aside, in dollars: the call goes on its way."""

    call_id: CallId
    reserved: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The call ended well; dollars that the tenant paid."""

    finish_reason: FinishReason
    usage: Usage
    captured: Decimal


CallerMessage = Started | Text | Finished


@dataclass(slots=True)
class Progress:
    """How far a call has come. asked: a worker may know of it; sent: it calls the provider.

    tokens: handed on to the caller, those of the piece that is just being written included: who takes the
    last piece and leaves before the write returns has the whole answer.
    """

    asked: bool = False
    sent: bool = False
    tokens: int = 0
    answered: Answered | None = None

    def take(self, message: WorkerMessage) -> None:
        """Notes what came."""
        match message:
            case CallSent():
                self.sent = True
            case Text(tokens=tokens):
                self.tokens += tokens
            case Answered():
                self.answered = message


def checked_short_call(draft: SpecDraft, faults: Faults, *, limits: Limits, now: datetime) -> Spec:
    """The spec of a short call. Whatever is wrong goes into `faults`, as for a job."""
    if draft.max_output_tokens is None:
        draft = replace(draft, max_output_tokens=DEFAULT_MAX_OUTPUT_TOKENS)
    return checked_spec(draft, faults, limits=limits, now=now)


def check_fits(spec: Spec, lane: str, speeds: Speeds, *, time_left: float) -> None:
    """UseAJob when the longest answer is expected to take longer than the caller has, in seconds."""
    estimate = speeds.seconds_for(lane, spec.max_output_tokens)
    if estimate > time_left:
        raise UseAJob(estimate=estimate, time_left=time_left, output_tokens=spec.max_output_tokens)
