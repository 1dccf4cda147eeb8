"""Prices, as decisions: find a model at a price version, and say what it costs. Pure."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jobs_store.rate_card import Breakdown, RateCard
    from pricing_service.price_catalog import Catalog, CatalogLine

MAX_MARKUP: Final = Decimal(10)
MARKUP_DECIMALS: Final = 4
_MARKUP_MARK: Final = "-m"
_LONGEST_NAME: Final = 128


class UnknownModel(Exception):
    """No catalog line has this name; ``nearest`` are the names most like it."""

    reason = "UNKNOWN_MODEL"

    def __init__(self, model: str, nearest: Sequence[str]) -> None:
        self.model = model
        self.nearest = tuple(nearest)
        hint = f"; nearest: {', '.join(self.nearest)}" if self.nearest else ""
        super().__init__(f"model {model[:_LONGEST_NAME]!r} is not in the price catalog{hint}")

    @property
    def metadata(self) -> Mapping[str, str]:
        """For a program: the name asked for and the nearest ones, separated by commas."""
        return {"model": self.model[:_LONGEST_NAME], "nearest": ",".join(self.nearest)}


class PriceVersionGone(Exception):
    """The price version is not, or no longer, among the catalogs that this service holds."""

    reason = "PRICE_VERSION_GONE"

    def __init__(self, price_version: str) -> None:
        self.price_version = price_version
        super().__init__(f"price version {price_version[:_LONGEST_NAME]!r} is not held here")

    @property
    def metadata(self) -> Mapping[str, str]:
        """For a program: the version asked for."""
        return {"price_version": self.price_version[:_LONGEST_NAME]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One model at one price version: what the provider charges and what the tenant pays."""

    line: CatalogLine
    provider_card: RateCard
    tenant_card: RateCard


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The most that a call within its bounds costs, in dollars."""

    offer: Offer
    amount: Decimal
    breakdown: Breakdown
    provider_amount: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceList:
    """One catalog under one markup. ``price_version`` names both."""

    catalog: Catalog
    markup: Decimal
    names: Mapping[str, CatalogLine] = field(repr=False)

    @classmethod
    def of(cls, catalog: Catalog, markup: Decimal) -> PriceList:
        """The prices of a catalog with ``markup`` (0.2 = 20 %) on top of the provider's."""
        return cls(catalog=catalog, markup=markup, names=catalog.by_name())

    @property
    def price_version(self) -> str:
        """The catalog's version and the markup, such as ``2026-11-30-1a2b3c4d5e6f-m0.2``."""
        return f"{self.catalog.price_version}{_MARKUP_MARK}{self.markup.normalize():f}"

    def offer(self, model: str) -> Offer:
        """Raises ``UnknownModel``."""
        return self.offer_of(self._find(model))

    def offer_of(self, line: CatalogLine) -> Offer:
        """The two cards of a line."""
        tenant_card = line.rates.marked_up(self.markup, price_version=self.price_version)
        return Offer(line=line, provider_card=line.rates, tenant_card=tenant_card)

    def price(self, model: str, *, input_token_bound: int, max_output_tokens: int) -> Price:
        """The worst case within the two bounds, for tenant and provider. Raises ``UnknownModel``."""
        offer = self.offer(model)
        breakdown = offer.tenant_card.worst_case_breakdown(input_token_bound, max_output_tokens)
        return Price(
            offer=offer,
            amount=breakdown.total,
            breakdown=breakdown,
            provider_amount=offer.provider_card.worst_case(input_token_bound, max_output_tokens),
        )

    def _find(self, model: str) -> CatalogLine:
        line = self.names.get(model)
        if line is not None:
            return line
        base = self.names.get(model.partition(":")[0])
        if base is not None and base.takes_parameters:
            return base
        raise UnknownModel(model, difflib.get_close_matches(model[:_LONGEST_NAME], self.names, n=3))


def parse_price_version(price_version: str) -> tuple[str, Decimal]:
    """The catalog's version and the markup. Raises ``PriceVersionGone`` for what no service ever answered."""
    catalog_version, mark, text = price_version.rpartition(_MARKUP_MARK)
    try:
        markup = Decimal(text)
    except InvalidOperation:
        raise PriceVersionGone(price_version) from None
    if not mark or markup_fault(markup) is not None:
        raise PriceVersionGone(price_version)
    return catalog_version, markup


def markup_fault(markup: Decimal) -> Literal["not a number", "out of range", "too many decimals"] | None:
    """What is wrong with a markup; None if it is one that rates can be multiplied with exactly."""
    exponent = markup.as_tuple().exponent
    if not isinstance(exponent, int):
        return "not a number"
    if not 0 <= markup <= MAX_MARKUP:
        return "out of range"
    return "too many decimals" if -exponent > MARKUP_DECIMALS else None
