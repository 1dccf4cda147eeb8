"""From the price data of ``genai-prices`` to rate cards."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from jobs_store.rate_card import RateCard, RateTier

if TYPE_CHECKING:
    from collections.abc import Iterable

    from genai_prices.types import ModelInfo, ModelPrice, TieredPrices

_PRICED_BY_TOKEN: Final = {"input_mtok", "output_mtok"}
_HALF_HOURS: Final = tuple(timedelta(minutes=30 * n) for n in range(48))


def dearest_card(model: ModelInfo, on: date) -> RateCard | None:
    """The nameless card of a model on that day, at its dearest hour, or None if not priced by the token."""
    midnight = datetime(on.year, on.month, on.day, tzinfo=UTC)
    prices = [model.get_prices(midnight + offset) for offset in _HALF_HOURS]
    if not all(_is_priced_by_token(price) for price in prices):
        return None
    cards = {_card(price) for price in prices}
    thresholds = sorted({tier.above_input_tokens for card in cards for tier in card.tiers})
    return RateCard(
        model="",
        price_version="",
        per_request=max(card.per_request for card in cards),
        tiers=tuple(_dearest_tier(cards, threshold) for threshold in thresholds),
    )


def _dearest_tier(cards: Iterable[RateCard], threshold: int) -> RateTier:
    tiers = [[tier for tier in card.tiers if tier.above_input_tokens <= threshold][-1] for card in cards]
    return RateTier(
        above_input_tokens=threshold,
        input=max(tier.input for tier in tiers),
        cached_input=max(tier.cached_input for tier in tiers),
        output=max(tier.output for tier in tiers),
    )


def _is_priced_by_token(price: ModelPrice) -> bool:
    keys = {key for key, value in vars(price).items() if value is not None}
    other_output = {key for key in keys if key.startswith("output_")} - _PRICED_BY_TOKEN
    return keys >= _PRICED_BY_TOKEN and not other_output and "input_text_messages_kcount" not in keys


def _card(price: ModelPrice) -> RateCard:
    rates = vars(price)
    cached = rates.get("cache_read_mtok")
    per_request = rates.get("requests_kcount") or Decimal(0)
    return RateCard.of_schedules(
        model="",
        price_version="",
        per_request=per_request.scaleb(-3),
        input_rates=_schedule(rates["input_mtok"]),
        cached_input_rates=_schedule(rates["input_mtok"] if cached is None else cached),
        output_rates=_schedule(rates["output_mtok"]),
    )


def _schedule(rate: Decimal | TieredPrices) -> dict[int, Decimal]:
    if isinstance(rate, Decimal):
        return {0: rate}
    return {0: rate.base} | {tier.start: tier.price for tier in rate.tiers}
