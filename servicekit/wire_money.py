"""Decimal amounts to and from google.type.Money, exactly: 1e-9 USD is the unit of both."""

from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Final

from google.type.money_pb2 import Money

CURRENCY: Final = "USD"
_NANOS: Final = 1_000_000_000
_NANO: Final = Decimal("1e-9")
_EXACT: Final = Context(prec=40, traps=[Inexact, InvalidOperation])
_MAX_UNITS: Final = 2**63 - 1


class UnrepresentableAmount(ValueError):
    """The amount has digits below 1e-9, is not finite, or does not fit 64 bits of units."""


class MalformedMoney(ValueError):
    """The Money message breaks the rules of google.type.Money, or is not in USD."""


def money_of(amount: Decimal) -> Money:
    """The Money of an amount in USD. Raises UnrepresentableAmount rather than round."""
    nanos = _nanos(amount)
    units, fraction = divmod(abs(nanos), _NANOS)
    if units > _MAX_UNITS:
        raise UnrepresentableAmount(f"{amount} is too large")
    sign = -1 if nanos < 0 else 1
    return Money(currency_code=CURRENCY, units=sign * units, nanos=sign * fraction)


def _nanos(amount: Decimal) -> int:
    if not amount.is_finite():
        raise UnrepresentableAmount(f"{amount} is no amount of money")
    try:
        return int(_EXACT.quantize(amount, _NANO).scaleb(9, _EXACT))
    except (Inexact, InvalidOperation):
        raise UnrepresentableAmount(f"{amount} is too large or has digits below 1e-9") from None


def amount_of(money: Money) -> Decimal:
    """The amount in USD of a Money, scaled to 1e-9. Raises MalformedMoney.

    An empty currency is USD: it is what a client that sets only the amount sends.
    """
    if money.currency_code not in {"", CURRENCY}:
        raise MalformedMoney(f"the currency must be {CURRENCY}, not {money.currency_code!r}")
    if abs(money.nanos) >= _NANOS:
        raise MalformedMoney(f"nanos must lie between -999999999 and 999999999, not {money.nanos}")
    if money.units * money.nanos < 0:
        raise MalformedMoney("units and nanos must have the same sign")
    nanos = money.units * _NANOS + money.nanos
    return Decimal((int(nanos < 0), tuple(map(int, str(abs(nanos)))), -9))
