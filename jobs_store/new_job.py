"""A job before it exists: everything that its create writes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from jobs_store.identifiers import JobId, QuoteId, TenantId
from jobs_store.rate_card import RateCard
from jobs_store.states import PriceBasis, UnknownOutcomePolicy

SPEC_VERSION = 1
"""The newest version of stored specs that this release writes and can run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a job is charged and costs at most, in dollars, and the cards that say so."""

    basis: PriceBasis
    version: str
    quote_id: QuoteId | None
    rate_card: RateCard
    provider_rate_card: RateCard
    provider: str
    lane: str
    input_token_bound: int
    input_token_estimate: int
    quoted_amount: Decimal
    attempt_worst_case: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """All that is kept of the request that made a job."""

    principal: str
    traceparent: str
    tracestate: str
    ledger: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """The idempotency key of a create; its lifetime in seconds."""

    digest: bytes
    hash_version: int
    request_digest: bytes
    lifetime: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job to be made. Durations in seconds, amounts in dollars."""

    tenant: TenantId
    job_id: JobId
    key: Key
    origin: Origin
    price: Price
    model: str
    messages: Sequence[Mapping[str, str]]
    sampling: Mapping[str, object]
    max_output_tokens: int
    attempt_timeout: float
    queue_timeout: float
    max_attempts: int
    unknown_outcome_policy: UnknownOutcomePolicy
    provider_cost_limit: Decimal
    max_charge: Decimal | None
    priority: int
    schedule_time: datetime | None
    labels: Mapping[str, str]

    def to_json(self) -> dict[str, object]:
        """The form that create_job reads."""
        return {
            "tenant_id": self.tenant,
            "id": self.job_id,
            "key_digest": self.key.digest.hex(),
            "hash_version": self.key.hash_version,
            "request_digest": self.key.request_digest.hex(),
            "key_lifetime": self.key.lifetime,
            "principal": self.origin.principal,
            "traceparent": self.origin.traceparent,
            "tracestate": self.origin.tracestate,
            "create_ledger": self.origin.ledger,
            "model": self.model,
            "provider": self.price.provider,
            "lane": self.price.lane,
            "spec_version": SPEC_VERSION,
            "priority": self.priority,
            "schedule_time": self.schedule_time,
            "queue_timeout": self.queue_timeout,
            "labels": dict(self.labels),
            "max_output_tokens": self.max_output_tokens,
            "attempt_timeout": self.attempt_timeout,
            "max_attempts": self.max_attempts,
            "unknown_outcome_policy": self.unknown_outcome_policy,
            "price_basis": self.price.basis,
            "price_version": self.price.version,
            "quote_id": self.price.quote_id,
            "rate_card": self.price.rate_card.to_json(),
            "provider_rate_card": self.price.provider_rate_card.to_json(),
            "input_token_bound": self.price.input_token_bound,
            "input_token_estimate": self.price.input_token_estimate,
            "quoted_amount": self.price.quoted_amount,
            "attempt_worst_case": self.price.attempt_worst_case,
            "max_charge": self.max_charge,
            "provider_cost_limit": self.provider_cost_limit,
            "messages": [dict(message) for message in self.messages],
            "sampling": dict(self.sampling),
        }
