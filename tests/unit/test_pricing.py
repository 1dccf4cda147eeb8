"""What the price catalog and the price decisions promise."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs_store.rate_card import RateCard, RateTier, Usage
from pricing_service.domain import PriceList, PriceVersionGone, UnknownModel, parse_price_version
from pricing_service.import_catalog import catalog_lines, write_catalog
from pricing_service.price_catalog import CATALOG_DIRECTORY, MalformedCatalog, load_catalogs, read_catalog
from pricing_service.service import PricingService

if TYPE_CHECKING:
    from pathlib import Path

MARKUP = Decimal("0.2")


@pytest.fixture(scope="module")
def prices() -> PriceList:
    return PriceList.of(load_catalogs()[-1], MARKUP)


@pytest.fixture(scope="module")
def service(prices: PriceList) -> PricingService:
    return PricingService({prices.catalog.price_version: prices.catalog}, current=prices)


def test_the_committed_catalog_is_what_the_importer_writes_for_its_date(tmp_path: Path) -> None:
    committed = load_catalogs()[-1]
    written = write_catalog(date.fromisoformat(committed.date), tmp_path)
    assert (CATALOG_DIRECTORY / written.name).read_bytes() == written.read_bytes()


def test_the_same_day_gives_the_same_catalog() -> None:
    assert catalog_lines(date(2026, 11, 1)) == catalog_lines(date(2026, 11, 1))


def test_a_catalog_that_was_changed_by_hand_is_refused(tmp_path: Path) -> None:
    path = write_catalog(date(2026, 11, 30), tmp_path)
    path.write_text(path.read_text().replace('"output":"2"', '"output":"1"', 1))
    with pytest.raises(MalformedCatalog, match="was changed"):
        read_catalog(path)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"date": "2026-11-30", "models": [{}]}'])
def test_a_malformed_catalog_is_refused_by_its_file_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "2026-11-30-aaaaaaaaaaaa.json"
    path.write_text(text)
    with pytest.raises(MalformedCatalog, match="2026-11-30-aaaaaaaaaaaa"):
        read_catalog(path)


def test_an_empty_directory_says_how_to_make_a_catalog(tmp_path: Path) -> None:
    with pytest.raises(MalformedCatalog, match="make catalog"):
        load_catalogs(tmp_path)


@pytest.mark.parametrize(
    ("model", "lane"),
    [
        ("gpt-4o-mini", "openai/gpt-4o-mini"),
        ("gpt-4o-mini-2024-07-18", "openai/gpt-4o-mini"),
        ("openai/gpt-4o-mini", "openai/gpt-4o-mini"),
        ("claude-haiku-4-5", "anthropic/claude-haiku-4-5"),
        ("google/claude-haiku-4-5", "google/claude-haiku-4-5"),
        ("groq/openai/gpt-oss-20b", "groq/openai/gpt-oss-20b"),
        ("smollm2-135m", "local/smollm2-135m"),
        ("simulated-fast", "simulated/simulated-fast"),
        ("simulated-fast:tps=200,tokens=300", "simulated/simulated-fast"),
    ],
)
def test_a_model_is_found_by_its_names(prices: PriceList, model: str, lane: str) -> None:
    assert prices.offer(model).line.lane == lane


@pytest.mark.parametrize("model", ["gpt-4o-minni", "gpt-4o-mini:tps=3", "", "Simulated-fast!"])
def test_an_unknown_model_is_not_priced(prices: PriceList, model: str) -> None:
    with pytest.raises(UnknownModel) as caught:
        prices.offer(model)
    assert caught.value.reason == "UNKNOWN_MODEL"


def test_an_unknown_model_comes_with_the_nearest_names(prices: PriceList) -> None:
    with pytest.raises(UnknownModel, match="gpt-4o-mini") as caught:
        prices.offer("gpt-4o-minni")
    assert caught.value.metadata["nearest"].split(",")[0] == "gpt-4o-mini"


@given(st.integers(0, 1_000_000), st.integers(1, 100_000))
def test_the_tenant_never_pays_less_than_the_provider_asks(input_bound: int, max_output: int) -> None:
    prices = PriceList.of(load_catalogs()[-1], MARKUP)
    for model in ("gpt-4o-mini", "gemini-2.5-pro", "smollm2-135m"):
        price = prices.price(model, input_token_bound=input_bound, max_output_tokens=max_output)
        assert price.provider_amount <= price.amount
        assert price.breakdown.total == price.amount


def test_a_price_is_the_worst_case_at_the_tenants_card(prices: PriceList) -> None:
    price = prices.price("smollm2-135m", input_token_bound=1000, max_output_tokens=500)
    assert price.provider_amount == Decimal("0.002")
    assert price.amount == Decimal("0.0024")
    assert price.offer.tenant_card.price_version == prices.price_version


def test_pages_of_the_list_give_every_model_once_and_in_order(
    service: PricingService, prices: PriceList
) -> None:
    seen: list[str] = []
    last = ""
    for _ in range(100):
        page = service.list_prices(size=37, after=last)
        seen += [offer.line.model for offer in page.offers]
        last = page.last_model
        if not last:
            break
    assert seen == sorted(line.model for line in prices.catalog.lines)


def test_a_list_can_be_cut_to_a_prefix(service: PricingService) -> None:
    page = service.list_prices(size=500, prefix="simulated")
    assert {offer.line.provider for offer in page.offers} == {"simulated"}


def test_a_usage_can_be_rated_at_an_earlier_version(prices: PriceList) -> None:
    old_card = RateCard(
        model="smollm2-135m",
        price_version="2026-01-01-0123456789ab",
        tiers=(
            RateTier(above_input_tokens=0, input=Decimal(10), cached_input=Decimal(10), output=Decimal(10)),
        ),
    )
    line = prices.offer("smollm2-135m").line
    old = type(prices.catalog)(
        price_version=old_card.price_version,
        date="2026-01-01",
        source="test",
        lines=(type(line)(model=line.model, provider=line.provider, rates=old_card),),
    )
    service = PricingService({old.price_version: old}, current=prices)
    usage = Usage(input_tokens=100, output_tokens=100)
    charge = service.rate_usage("smollm2-135m", usage, version="2026-01-01-0123456789ab-m0.5")
    assert (charge.provider_amount, charge.amount) == (Decimal("0.002"), Decimal("0.003"))
    assert service.rate_usage("smollm2-135m", usage).provider_amount == Decimal("0.0003")


@pytest.mark.parametrize(
    "version", ["x", "2026-01-01-0123456789ab", "2026-01-01-0123456789ab-m0.2", "a-mNaN", "a-m-1", "a-m99"]
)
def test_a_version_that_is_not_held_is_gone(service: PricingService, version: str) -> None:
    with pytest.raises(PriceVersionGone):
        service.rate_usage("smollm2-135m", Usage(input_tokens=1, output_tokens=1), version=version)


@given(st.decimals(min_value=0, max_value=10, places=4))
def test_a_price_version_names_its_catalog_and_markup(markup: Decimal) -> None:
    prices = PriceList(catalog=load_catalogs()[-1], markup=markup, names={})
    assert parse_price_version(prices.price_version) == (prices.catalog.price_version, markup)


def test_every_line_is_a_decimal_string_per_million() -> None:
    stored = json.loads((CATALOG_DIRECTORY / f"{load_catalogs()[-1].price_version}.json").read_bytes())
    rates = [
        tier[name] for line in stored["models"] for tier in line["tiers"] for name in ("input", "output")
    ]
    assert all(isinstance(rate, str) for rate in rates)
    assert len(rates) > 500
