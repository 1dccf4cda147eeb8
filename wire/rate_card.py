"""Rate cards: three lists of tiers "from n tokens" in the contract, one list "above n" in a card."""

from collections.abc import Iterable
from decimal import Decimal, InvalidOperation

from google.type.decimal_pb2 import Decimal as DecimalMessage

from hourglass.pricing.v1 import pricing_service_pb2 as pb
from jobs_store.rate_card import MalformedRateCard, RateCard, Schedule
from servicekit.wire_money import CURRENCY


def rate_card_message(card: RateCard) -> pb.RateCard:
    """The message of a card."""
    tiers = card.tiers
    return pb.RateCard(
        model=card.model,
        currency_code=CURRENCY,
        price_version=card.price_version,
        per_request=_decimal_message(card.per_request),
        input_tiers=_tier_messages((tier.above_input_tokens, tier.input) for tier in tiers),
        cached_input_tiers=_tier_messages((tier.above_input_tokens, tier.cached_input) for tier in tiers),
        output_tiers=_tier_messages((tier.above_input_tokens, tier.output) for tier in tiers),
    )


def rate_card_of(message: pb.RateCard) -> RateCard:
    """The card of a message: it gives the same amounts. MalformedRateCard when it is none, or not in USD."""
    if message.currency_code != CURRENCY:
        raise MalformedRateCard(f"currency_code must be {CURRENCY}, not {message.currency_code!r}")
    try:
        return RateCard.of_schedules(
            model=message.model,
            price_version=message.price_version,
            per_request=_decimal_of(message.per_request),
            input_rates=_schedule(message.input_tiers),
            cached_input_rates=_schedule(message.cached_input_tiers),
            output_rates=_schedule(message.output_tiers),
        )
    except ValueError as error:
        raise MalformedRateCard(str(error)) from error


def _tier_messages(rates: Iterable[tuple[int, Decimal]]) -> list[pb.RateTier]:
    """ "Above n" becomes "from n + 1", and a tier that changes nothing is left out."""
    tiers: list[pb.RateTier] = []
    last: Decimal | None = None
    for above, rate in rates:
        if rate != last:
            first = above + 1 if tiers else 0
            tiers.append(pb.RateTier(from_input_token_count=first, per_million_tokens=_decimal_message(rate)))
        last = rate
    return tiers


def _schedule(tiers: Iterable[pb.RateTier]) -> Schedule:
    return {max(tier.from_input_token_count - 1, 0): _decimal_of(tier.per_million_tokens) for tier in tiers}


def _decimal_message(value: Decimal) -> DecimalMessage:
    text = f"{value:f}"
    return DecimalMessage(value=text.rstrip("0").rstrip(".") if "." in text else text)


def _decimal_of(message: DecimalMessage) -> Decimal:
    try:
        return Decimal(message.value)
    except InvalidOperation:
        raise MalformedRateCard(f"a rate must be a decimal number, not {message.value!r}") from None
