"""A rate card that crossed the wire charges the same amounts."""

from dataclasses import replace
from decimal import Decimal

import pytest
from google.type.decimal_pb2 import Decimal as DecimalMessage
from hypothesis import given
from hypothesis import strategies as st

from jobs_store.rate_card import MalformedRateCard, RateCard, RateTier, Usage
from wire.rate_card import rate_card_message, rate_card_of

rates = st.decimals(min_value=0, max_value=1000, places=6)


@st.composite
def cards(draw: st.DrawFn) -> RateCard:
    thresholds = draw(st.lists(st.integers(1, 1_000_000), max_size=3, unique=True))
    tiers = tuple(
        RateTier(above_input_tokens=above, input=draw(rates), cached_input=draw(rates), output=draw(rates))
        for above in (0, *sorted(thresholds))
    )
    return RateCard(model="m", price_version="v1", tiers=tiers, per_request=draw(rates))


@given(card=cards(), tokens=st.integers(0, 2_000_000), output=st.integers(0, 1_000_000))
def test_a_card_comes_back_with_the_same_amounts(card: RateCard, tokens: int, output: int) -> None:
    back = rate_card_of(rate_card_message(card))
    usage = Usage(input_tokens=tokens, cached_input_tokens=tokens // 3, output_tokens=output)
    assert card.amount(usage) == back.amount(usage)
    assert card.worst_case(tokens, output) == back.worst_case(tokens, output)
    assert (back.model, back.price_version) == ("m", "v1")


PLAIN = RateCard(
    model="m",
    price_version="v1",
    tiers=(RateTier(above_input_tokens=0, input=Decimal(1), cached_input=Decimal(1), output=Decimal(2)),),
)


def test_a_card_in_another_currency_is_refused() -> None:
    message = rate_card_message(PLAIN)
    message.currency_code = "EUR"
    with pytest.raises(MalformedRateCard, match="currency_code"):
        rate_card_of(message)


@pytest.mark.parametrize("rate", ["", "NaN", "-1", "1e400", "many"])
def test_a_rate_that_is_none_is_refused(rate: str) -> None:
    message = rate_card_message(replace(PLAIN, per_request=Decimal(1)))
    message.output_tiers[0].per_million_tokens.CopyFrom(DecimalMessage(value=rate))
    with pytest.raises(MalformedRateCard):
        rate_card_of(message)


def test_a_card_without_tiers_is_refused() -> None:
    message = rate_card_message(PLAIN)
    message.ClearField("output_tiers")
    with pytest.raises(MalformedRateCard):
        rate_card_of(message)
