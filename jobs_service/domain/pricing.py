"""Prices as the service uses them: what a model costs, where that is known from, what a job reserves."""

from dataclasses import dataclass
from decimal import Decimal

from jobs_service.domain.errors import MaxChargeTooLow
from jobs_service.domain.spec import Spec
from jobs_store.errors import QuoteMismatch
from jobs_store.identifiers import QuoteId
from jobs_store.new_job import Price
from jobs_store.quotes import Quote, QuotedModel
from jobs_store.states import PriceBasis, UnknownOutcomePolicy
from servicekit.errors import FieldViolation, InvalidRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a price is asked for: upper bounds of tokens."""

    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """A model's rates, where they come from, and the quote that is used up by them."""

    line: QuotedModel
    basis: PriceBasis
    quote_id: QuoteId | None = None


def priced_by_quote(quote: Quote, spec: Spec) -> Priced:
    """The rates that were quoted. QuoteMismatch when the quote was made for less than the spec asks."""
    line = quote.line(spec.model)
    if line is None:
        raise QuoteMismatch(quote.quote_id, f"The quote has no price for model {spec.model!r}.")
    if spec.input_token_bound > quote.input_token_bound:
        raise QuoteMismatch(
            quote.quote_id,
            f"The quote is for {quote.input_token_bound} input tokens, the job may have"
            f" {spec.input_token_bound}.",
        )
    if spec.max_output_tokens > quote.max_output_tokens:
        raise QuoteMismatch(
            quote.quote_id,
            f"The quote is for {quote.max_output_tokens} output tokens, the job may have"
            f" {spec.max_output_tokens}.",
        )
    return Priced(line=line, basis=PriceBasis.QUOTE, quote_id=quote.quote_id)


def price_of(priced: Priced, spec: Spec, *, path: str = "spec") -> Price:
    """What a job of this spec reserves, and one attempt costs, at most. `path`: of the spec in the request.

    MaxChargeTooLow when that is more than the caller allows; InvalidRequest when not even one attempt is
    covered by provider_cost_limit.
    """
    line, bound = priced.line, spec.input_token_bound
    quoted = line.rate_card.worst_case(bound, spec.max_output_tokens)
    attempt = line.provider_rate_card.worst_case(bound, spec.max_output_tokens)
    if spec.max_charge is not None and quoted > spec.max_charge:
        field = ".".join(filter(None, (path, "max_charge")))
        raise MaxChargeTooLow(max_charge=spec.max_charge, required=quoted, field=field)
    if spec.provider_cost_limit is not None and attempt > spec.provider_cost_limit:
        raise InvalidRequest(
            FieldViolation(
                "spec.provider_cost_limit", f"must cover one attempt, which may cost {attempt:f} USD"
            )
        )
    return Price(
        basis=priced.basis,
        version=line.price_version,
        quote_id=priced.quote_id,
        rate_card=line.rate_card,
        provider_rate_card=line.provider_rate_card,
        provider=line.provider,
        lane=line.lane,
        input_token_bound=bound,
        input_token_estimate=spec.input_token_estimate,
        quoted_amount=quoted,
        attempt_worst_case=attempt,
    )


def cost_limit(spec: Spec, price: Price) -> Decimal:
    """What all attempts may cost the operator: as the caller says, else every attempt at its worst."""
    if spec.provider_cost_limit is not None:
        return spec.provider_cost_limit
    return price.attempt_worst_case * spec.max_attempts


def unknown_outcome_policy(spec: Spec, price: Price, *, retry_below: Decimal) -> UnknownOutcomePolicy:
    """What the caller says, else RETRY where an attempt that ran in vain is cheap, HOLD where it is not."""
    if spec.unknown_outcome_policy is not None:
        return spec.unknown_outcome_policy
    cheap = price.attempt_worst_case < retry_below
    return UnknownOutcomePolicy.RETRY if cheap else UnknownOutcomePolicy.HOLD
