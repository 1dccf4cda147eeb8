"""Models find their provider by configuration, and bad configuration is refused by its field."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from pydantic import ValidationError

from model_servers.simulated.behaviour import PRESETS
from pricing_service.domain import PriceList
from pricing_service.import_catalog import SIMULATED_MODELS
from pricing_service.price_catalog import load_catalogs
from worker.providers.routes import ProviderRoute, Routes, UnroutedModel


def route(name: str, *models: str, **options: Any) -> ProviderRoute:
    return ProviderRoute(name=name, models=models, base_url="http://127.0.0.1:1/v1", **options)


ROUTES = Routes(
    routes=[
        route("simulated", "simulated*"),
        route("local", "smollm2-135m"),
        route("groq", "groq/*", strip_name=True),
        route("openai", "gpt-*", "o[0-9]*"),
    ]
)


@pytest.mark.parametrize(
    ("model", "provider", "upstream"),
    [
        ("simulated-fast:tps=3", "simulated", "simulated-fast:tps=3"),
        ("smollm2-135m", "local", "smollm2-135m"),
        ("groq/openai/gpt-oss-20b", "groq", "openai/gpt-oss-20b"),
        ("gpt-4o-mini", "openai", "gpt-4o-mini"),
        ("o3-mini", "openai", "o3-mini"),
    ],
)
def test_a_model_goes_to_the_first_route_that_matches(model: str, provider: str, upstream: str) -> None:
    found = ROUTES.find(model)
    assert (found.name, found.upstream_model(model)) == (provider, upstream)


@pytest.mark.parametrize("model", ["", "claude", "SIMULATED", "my-gpt-4"])
def test_a_model_without_a_route_is_an_error(model: str) -> None:
    with pytest.raises(UnroutedModel):
        ROUTES.find(model)


def test_route_and_price_agree_on_the_lane() -> None:
    prices = PriceList.of(load_catalogs()[-1], Decimal(0))
    for model in ("simulated-fast:tps=3", "smollm2-135m", "groq/openai/gpt-oss-20b", "gpt-4o-mini"):
        assert ROUTES.find(model).lane(model) == prices.offer(model).line.lane


def test_every_simulated_model_is_priced() -> None:
    assert set(SIMULATED_MODELS) == set(PRESETS)


def test_two_routes_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="local"):
        Routes(routes=[route("local", "a"), route("local", "b")])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "Not a name"),
        ("models", ()),
        ("base_url", "ftp://x"),
        ("total", 0),
        ("look_up_path", "/answers"),
        ("conect", 1),
    ],
)
def test_a_bad_route_is_refused_by_its_field(field: str, value: object) -> None:
    good: dict[str, Any] = {"name": "a", "models": ("a",), "base_url": "http://a"}
    with pytest.raises(ValidationError, match=field):
        ProviderRoute(**(good | {field: value}))


def test_a_key_is_not_shown() -> None:
    assert "swordfish" not in repr(route("a", "a", api_key="swordfish"))
