"""Money crosses the wire without losing a digit."""

from decimal import Decimal

import pytest
from google.type.money_pb2 import Money
from hypothesis import given
from hypothesis import strategies as st

from servicekit.wire_money import MalformedMoney, UnrepresentableAmount, amount_of, money_of

NANOS_OF_64_BITS = (2**63 - 1) * 10**9


@given(st.integers(-NANOS_OF_64_BITS, NANOS_OF_64_BITS))
def test_every_amount_of_whole_nanos_comes_back_exactly(nanos: int) -> None:
    amount = Decimal(f"{nanos}e-9")

    assert amount == amount_of(money_of(amount))


@given(st.integers(-NANOS_OF_64_BITS, NANOS_OF_64_BITS))
def test_units_and_nanos_never_have_opposite_signs(nanos: int) -> None:
    money = money_of(Decimal(f"{nanos}e-9"))

    assert money.units * money.nanos >= 0
    assert abs(money.nanos) < 10**9


@pytest.mark.parametrize(
    "text", ["0.0000000001", "1.2345678901", "NaN", "Infinity", "1e30", "9223372036854775808"]
)
def test_an_amount_that_does_not_fit_is_refused_and_never_rounded(text: str) -> None:
    with pytest.raises(UnrepresentableAmount):
        money_of(Decimal(text))


def test_zeros_behind_the_ninth_digit_are_no_digits() -> None:
    assert Money(currency_code="USD", units=1, nanos=500_000_000) == money_of(Decimal("1.50000000000000"))


@pytest.mark.parametrize(
    ("money", "complaint"),
    [
        (Money(currency_code="EUR", units=1), "the currency must be USD"),
        (Money(currency_code="USD", nanos=10**9), "nanos must lie between"),
        (Money(currency_code="USD", units=1, nanos=-1), "the same sign"),
    ],
)
def test_malformed_money_is_refused_with_what_is_wrong(money: Money, complaint: str) -> None:
    with pytest.raises(MalformedMoney, match=complaint):
        amount_of(money)


def test_an_amount_without_a_currency_is_in_dollars() -> None:
    assert Decimal("2.000000001") == amount_of(Money(units=2, nanos=1))
