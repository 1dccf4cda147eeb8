"""Policies are checked at the start, together with every other setting."""

from typing import Annotated

import pytest
from pydantic import Field
from pydantic_settings import NoDecode, SettingsConfigDict

from budget.policies import PolicyBook, policies
from servicekit.policy_settings import overriding
from servicekit.settings import Settings, SettingsError

DEFAULTS = PolicyBook(policies("pricing", "GetPrice", limit=0.5))


class Example(Settings):
    model_config = SettingsConfigDict(env_prefix="EXAMPLE_")

    port: int = Field(default=1, gt=0)
    policies: Annotated[PolicyBook, NoDecode, overriding(DEFAULTS)] = DEFAULTS


@pytest.mark.parametrize("value", [None, "", " "])
def test_without_a_value_the_defaults_hold(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    if value is not None:
        monkeypatch.setenv("EXAMPLE_POLICIES", value)

    assert DEFAULTS == Example.load().policies


def test_a_value_changes_the_defaults_and_can_be_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXAMPLE_POLICIES", '{"pricing": {"limit": 0.25}}')

    settings = Example.load()

    assert 0.25 == settings.policies.of("pricing", "GetPrice").limit
    assert "pricing.GetPrice: limit 0.25 s, floor 0 s, enforce" == settings.redacted()["policies"]


def test_its_problems_stand_beside_those_of_other_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXAMPLE_PORT", "0")
    monkeypatch.setenv("EXAMPLE_POLICIES", '{"pricing": {"limit": 0, "floor": -1}, "x": {}}')

    with pytest.raises(SettingsError) as caught:
        Example.load()

    assert {
        "EXAMPLE_PORT",
        "EXAMPLE_POLICIES.pricing.limit",
        "EXAMPLE_POLICIES.pricing.floor",
        "EXAMPLE_POLICIES.x",
    } == set(caught.value.problems)
