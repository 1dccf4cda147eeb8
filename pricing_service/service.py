"""The use cases of the price service. In memory: nothing here waits."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pricing_service.domain import Offer, Price, PriceList, PriceVersionGone, parse_price_version

if TYPE_CHECKING:
    from collections.abc import Mapping
    from decimal import Decimal

    from jobs_store.rate_card import Breakdown, Usage
    from pricing_service.price_catalog import Catalog


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """What a known usage costs, in dollars."""

    amount: Decimal
    breakdown: Breakdown
    provider_amount: Decimal
    price_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PricePage:
    """Some offers, by model name. ``last_model`` is where the next page goes on; empty on the last page."""

    offers: tuple[Offer, ...]
    last_model: str
    price_version: str


class PricingService:
    """Prices from the current catalog; charges from any catalog that is still held."""

    def __init__(self, catalogs: Mapping[str, Catalog], *, current: PriceList) -> None:
        self._catalogs = catalogs
        self._current = current

    @property
    def price_version(self) -> str:
        """The version that new prices come from."""
        return self._current.price_version

    def get_price(self, model: str, *, input_token_bound: int, max_output_tokens: int) -> Price:
        """The most that a call costs. Raises ``UnknownModel``."""
        return self._current.price(
            model, input_token_bound=input_token_bound, max_output_tokens=max_output_tokens
        )

    def list_prices(self, *, size: int, after: str = "", prefix: str = "", version: str = "") -> PricePage:
        """Up to ``size`` offers whose model starts with ``prefix``, after the model ``after``.

        Raises ``PriceVersionGone`` if the version that the first page came from is no longer held.
        """
        prices = self._at(version)
        lines = [line for line in prices.catalog.lines if line.model.startswith(prefix)]
        start = bisect_right(lines, after, key=lambda line: line.model)
        page = lines[start : start + size]
        more = start + size < len(lines)
        return PricePage(
            offers=tuple(prices.offer_of(line) for line in page),
            last_model=page[-1].model if more else "",
            price_version=prices.price_version,
        )

    def rate_usage(self, model: str, usage: Usage, *, version: str = "") -> Charge:
        """What a usage costs at a version, the current one if empty.

        Raises ``UnknownModel`` and ``PriceVersionGone``.
        """
        prices = self._at(version)
        offer = prices.offer(model)
        breakdown = offer.tenant_card.breakdown(usage)
        return Charge(
            amount=breakdown.total,
            breakdown=breakdown,
            provider_amount=offer.provider_card.amount(usage),
            price_version=prices.price_version,
        )

    def _at(self, version: str) -> PriceList:
        if version in {"", self._current.price_version}:
            return self._current
        catalog_version, markup = parse_price_version(version)
        catalog = self._catalogs.get(catalog_version)
        if catalog is None:
            raise PriceVersionGone(version)
        return PriceList.of(catalog, markup)
