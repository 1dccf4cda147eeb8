"""What the money arithmetic promises: exact, rounded up once, bounded by the worst case, monotone."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs_store.money import NANO, round_up
from jobs_store.rate_card import RateCard, RateTier, Usage

rates = st.decimals(min_value=0, max_value=1000, places=6)
tokens = st.integers(min_value=0, max_value=2_000_000)
extra_tokens = st.integers(min_value=0, max_value=100_000)


@st.composite
def rate_cards(draw: st.DrawFn) -> RateCard:
    thresholds = [0, *sorted(draw(st.sets(st.integers(1, 1_500_000), max_size=3)))]
    return RateCard(
        model="m",
        price_version="v",
        per_request=draw(rates),
        tiers=tuple(
            RateTier(above_input_tokens=t, input=draw(rates), cached_input=draw(rates), output=draw(rates))
            for t in thresholds
        ),
    )


@st.composite
def usages(draw: st.DrawFn) -> Usage:
    input_tokens = draw(tokens)
    return Usage(
        input_tokens=input_tokens,
        cached_input_tokens=draw(st.integers(0, input_tokens)),
        output_tokens=draw(tokens),
    )


def flat_card(
    *, input_rate: str = "0.15", cached_input: str = "0.075", output: str = "0.6", per_request: str = "0"
) -> RateCard:
    tier = RateTier(
        above_input_tokens=0,
        input=Decimal(input_rate),
        cached_input=Decimal(cached_input),
        output=Decimal(output),
    )
    return RateCard(model="m", price_version="v", tiers=(tier,), per_request=Decimal(per_request))


def exact_amount(card: RateCard, usage: Usage) -> Fraction:
    tier = max(
        (t for t in card.tiers if usage.input_tokens > t.above_input_tokens or t is card.tiers[0]),
        key=lambda t: t.above_input_tokens,
    )
    uncached = usage.input_tokens - usage.cached_input_tokens
    per_million = (
        uncached * Fraction(tier.input)
        + usage.cached_input_tokens * Fraction(tier.cached_input)
        + usage.output_tokens * Fraction(tier.output)
    )
    return per_million / 1_000_000 + Fraction(card.per_request)


@given(rate_cards(), usages())
def test_an_amount_is_the_exact_price_rounded_up_once(card: RateCard, usage: Usage) -> None:
    exact = exact_amount(card, usage)
    amount = Fraction(card.amount(usage))
    assert exact <= amount < exact + Fraction(NANO)


@given(rate_cards(), usages(), extra_tokens, extra_tokens)
def test_no_usage_within_the_bounds_costs_more_than_the_worst_case(
    card: RateCard, usage: Usage, more_input: int, more_output: int
) -> None:
    worst = card.worst_case(usage.input_tokens + more_input, usage.output_tokens + more_output)
    assert card.amount(usage) <= worst


@given(rate_cards(), tokens, tokens, extra_tokens, extra_tokens)
def test_the_worst_case_never_falls_when_a_bound_grows(
    card: RateCard, input_bound: int, max_output: int, more_input: int, more_output: int
) -> None:
    smaller = card.worst_case(input_bound, max_output)
    assert smaller <= card.worst_case(input_bound + more_input, max_output + more_output)


@given(rate_cards(), tokens, tokens)
def test_the_worst_case_is_reached_by_some_usage(card: RateCard, input_bound: int, max_output: int) -> None:
    candidates = {input_bound, *(min(t.above_input_tokens, input_bound) for t in card.tiers)}
    dearest = max(
        card.amount(Usage(input_tokens=i, cached_input_tokens=c, output_tokens=max_output))
        for i in candidates
        for c in (0, i)
    )
    assert card.worst_case(input_bound, max_output) == dearest


@given(rates, rates, usages(), extra_tokens, extra_tokens)
def test_on_a_flat_card_more_tokens_never_cost_less(
    input_rate: Decimal, output_rate: Decimal, usage: Usage, more_input: int, more_output: int
) -> None:
    card = flat_card(input_rate=str(input_rate), cached_input="0", output=str(output_rate))
    longer = replace(
        usage,
        input_tokens=usage.input_tokens + more_input,
        output_tokens=usage.output_tokens + more_output,
    )
    assert card.amount(usage) <= card.amount(longer)


@given(rate_cards())
def test_a_card_survives_its_stored_form(card: RateCard) -> None:
    assert card == RateCard.from_json(json.loads(json.dumps(card.to_json())))


@given(rate_cards(), usages(), st.decimals(min_value=0, max_value=5, places=4))
def test_a_markup_never_makes_a_call_cheaper(card: RateCard, usage: Usage, markup: Decimal) -> None:
    marked_up = card.marked_up(markup, price_version="v+m")
    assert marked_up.price_version == "v+m"
    assert card.amount(usage) <= marked_up.amount(usage)


def test_a_known_price() -> None:
    card = flat_card(per_request="0.01")
    usage = Usage(input_tokens=1000, cached_input_tokens=400, output_tokens=500)
    assert Decimal("0.010420000") == card.amount(usage)


def test_a_tier_prices_every_token_once_its_threshold_is_exceeded() -> None:
    low = RateTier(above_input_tokens=0, input=Decimal(1), cached_input=Decimal(1), output=Decimal(2))
    high = RateTier(above_input_tokens=1000, input=Decimal(2), cached_input=Decimal(2), output=Decimal(3))
    card = RateCard(model="m", price_version="v", tiers=(low, high))
    assert Decimal("0.001") == card.amount(Usage(input_tokens=1000, output_tokens=0))
    assert Decimal("0.002002") == card.amount(Usage(input_tokens=1001, output_tokens=0))


def test_the_smallest_part_of_a_dollar_is_rounded_up() -> None:
    assert flat_card(input_rate="0.0001").amount(Usage(input_tokens=1, output_tokens=0)) == NANO
    assert flat_card().amount(Usage(input_tokens=0, output_tokens=0)) == 0


@pytest.mark.parametrize("amount", ["-0.1", "NaN", "Infinity", "1e13"])
def test_what_is_no_amount_is_refused(amount: str) -> None:
    with pytest.raises(ValueError, match="not an amount"):
        round_up(Decimal(amount))


@pytest.mark.parametrize(
    ("stored", "field"),
    [
        ({"price_version": "v", "per_request": "0", "tiers": []}, "model"),
        ({"model": "m", "price_version": "v", "per_request": 0.1, "tiers": []}, "per_request"),
        ({"model": "m", "price_version": "v", "per_request": "x", "tiers": []}, "per_request"),
        ({"model": "m", "price_version": "v", "per_request": "0", "tiers": []}, "first tier"),
        ({"model": "m", "price_version": "v", "per_request": "0", "tiers": [{}]}, "above_input_tokens"),
        ({"model": "m", "price_version": "v", "per_request": "-1", "tiers": []}, "tier"),
    ],
)
def test_a_malformed_stored_card_is_refused_by_its_field(stored: dict[str, object], field: str) -> None:
    with pytest.raises(ValueError, match=field):
        RateCard.from_json(stored)


@pytest.mark.parametrize("rate", ["-1", "NaN", "Infinity", "1000001", "0.0000000000000001"])
def test_a_rate_out_of_range_is_refused(rate: str) -> None:
    with pytest.raises(ValueError, match="output must be"):
        flat_card(output=rate)


def test_cached_tokens_are_part_of_the_input() -> None:
    with pytest.raises(ValueError, match="cached_input_tokens"):
        Usage(input_tokens=1, cached_input_tokens=2, output_tokens=0)
