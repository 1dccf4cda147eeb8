"""Quotes: priced answers that one create may use."""

from collections.abc import Sequence as Many
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from budget.core import Budget
from budget.postgres import Database
from jobs_store.creation import PolicyOf
from jobs_store.errors import QuoteExpired, QuoteNotFound, QuoteUsed, TenantNotFound
from jobs_store.identifiers import QuoteId, TenantId, new_audit_id
from jobs_store.rate_card import RateCard
from jobs_store.statements import statement
from jobs_store.stored_json import dump, load_array


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotedModel:
    """One model of a quote that was priced; amounts in dollars."""

    model: str
    provider: str
    lane: str
    price_version: str
    amount: Decimal
    provider_amount: Decimal
    rate_card: RateCard
    provider_rate_card: RateCard

    def to_json(self) -> dict[str, object]:
        """The stored form."""
        return {
            "model": self.model,
            "provider": self.provider,
            "lane": self.lane,
            "price_version": self.price_version,
            "amount": self.amount,
            "provider_amount": self.provider_amount,
            "rate_card": self.rate_card.to_json(),
            "provider_rate_card": self.provider_rate_card.to_json(),
        }

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> "QuotedModel":
        """The inverse of `to_json`."""
        return cls(
            **{
                **stored,
                "amount": Decimal(stored["amount"]),
                "provider_amount": Decimal(stored["provider_amount"]),
                "rate_card": RateCard.from_json(stored["rate_card"]),
                "provider_rate_card": RateCard.from_json(stored["provider_rate_card"]),
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NewQuote:
    """A quote to be remembered for `lifetime` seconds. `models` are those that were priced."""

    tenant: TenantId
    quote_id: QuoteId
    principal: str
    input_token_bound: int
    max_output_tokens: int
    models: Many[QuotedModel]
    lifetime: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """A quote that may still be used."""

    quote_id: QuoteId
    input_token_bound: int
    max_output_tokens: int
    models: Many[QuotedModel]

    def line(self, model: str) -> QuotedModel | None:
        """What the model was priced at, if it was."""
        return next((line for line in self.models if line.model == model), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """When a quote ends, and what the tenant could still reserve, in dollars."""

    expire_time: datetime
    available: Decimal


class QuoteStore:
    """Quotes, as the request role."""

    def __init__(self, database: Database, policy_of: PolicyOf) -> None:
        self._database = database
        self._policy_of = policy_of

    async def create(self, quote: NewQuote, *, budget: Budget) -> Remembered:
        """Remember a quote, leave an audit row, read the funds, in one statement. Raises TenantNotFound."""
        policy = self._policy_of("create_quote")
        lines = dump([model.to_json() for model in quote.models])
        async with self._database.transaction(budget, policy, tenants=[quote.tenant]) as transaction:
            row = await transaction.fetchrow(
                statement("create_quote"),
                quote.tenant,
                quote.quote_id,
                quote.principal,
                quote.lifetime,
                quote.input_token_bound,
                quote.max_output_tokens,
                lines,
                new_audit_id(),
            )
        if row is None:
            raise TenantNotFound(quote.tenant)
        return Remembered(expire_time=row["expire_time"], available=row["available"])

    async def usable(self, tenant: TenantId, quote_id: QuoteId, *, budget: Budget) -> Quote:
        """A quote that a create may use. Raises QuoteNotFound, QuoteExpired, QuoteUsed."""
        policy = self._policy_of("read_quote")
        async with self._database.transaction(budget, policy, tenants=[tenant], reading=True) as transaction:
            row = await transaction.fetchrow(statement("read_quote"), tenant, quote_id)
        if row is None:
            raise QuoteNotFound(quote_id)
        if row["used"]:
            raise QuoteUsed(quote_id)
        if row["expired"]:
            raise QuoteExpired.at(quote_id, row["expire_time"])
        return Quote(
            quote_id=quote_id,
            input_token_bound=row["input_token_bound"],
            max_output_tokens=row["max_output_tokens"],
            models=[QuotedModel.from_json(line) for line in load_array(row["lines"])],
        )
