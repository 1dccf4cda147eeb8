"""How an attempt ended, and what it used and cost."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from jobs_store.rate_card import RateCard, Usage
from jobs_store.states import AttemptOutcome, CostBasis, ErrorClass

ZERO = Decimal(0)
LEASE_EXPIRED = "LEASE_EXPIRED"
"""The cause of an attempt whose run nobody heard of any more."""
NO_USAGE = Usage(input_tokens=0, output_tokens=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderCost:
    """What an attempt costs the operator, in dollars. UNKNOWN: no amount is known, `worst_case` is due."""

    amount: Decimal = ZERO
    basis: CostBasis | None = None
    worst_case: Decimal = ZERO

    @classmethod
    def nothing(cls) -> "ProviderCost":
        """Nothing was sent, or the provider answered that it did nothing."""
        return cls()

    @classmethod
    def known(cls, card: RateCard, usage: Usage, basis: CostBasis) -> "ProviderCost":
        """The cost of a usage at the provider's card."""
        return cls(amount=card.amount(usage), basis=basis)

    @classmethod
    def unknown(cls, worst_case: Decimal) -> "ProviderCost":
        """The provider may have run it, up to `worst_case` dollars."""
        return cls(basis=CostBasis.UNKNOWN, worst_case=worst_case)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnd:
    """What came of one attempt, as whoever ends it knows it."""

    outcome: AttemptOutcome
    cause: str
    counted: bool
    error_class: ErrorClass | None = None
    error_message: str = ""
    provider_request_id: str = ""
    first_token_time: datetime | None = None
    usage: Usage = NO_USAGE
    cost: ProviderCost = ProviderCost()

    def to_json(self) -> dict[str, object]:
        """The form that finish_jobs and requeue_jobs read."""
        return {
            "outcome": self.outcome,
            "cause": self.cause,
            "error_class": self.error_class,
            "error_message": self.error_message,
            "provider_request_id": self.provider_request_id,
            "counted": self.counted,
            "first_token_time": None if self.first_token_time is None else self.first_token_time.isoformat(),
            "input_tokens": self.usage.input_tokens,
            "cached_input_tokens": self.usage.cached_input_tokens,
            "output_tokens": self.usage.output_tokens,
            "cost": str(self.cost.amount),
            "cost_basis": self.cost.basis,
            "worst_case": str(self.cost.worst_case),
        }
