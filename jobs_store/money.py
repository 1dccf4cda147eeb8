"""Amounts of money: US dollars as ``Decimal``, in units of 1e-9, with one rounding rule.

The rule: an amount is computed exactly and then rounded up, once, at the end, to the next 1e-9 dollar.
Nothing in between is rounded, so the parts of a breakdown may add up to less than 1e-9 over their total.
"""

from __future__ import annotations

from decimal import (
    ROUND_CEILING,
    ROUND_FLOOR,
    Context,
    Decimal,
    DivisionByZero,
    Inexact,
    InvalidOperation,
    Overflow,
    localcontext,
)
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

NANO: Final = Decimal("0.000000001")
MAX_AMOUNT: Final = Decimal(10) ** 12
"""No single amount reaches this many dollars; NUMERIC(21, 9) columns hold it."""

_ERRORS: Final = [InvalidOperation, DivisionByZero, Overflow]
# Blocks work on copies of these.
_EXACT: Final = Context(prec=60, traps=[*_ERRORS, Inexact])
_ROUNDING: Final = Context(prec=60, traps=_ERRORS)


def exact_arithmetic() -> AbstractContextManager[Context]:
    """Decimal arithmetic in this block is exact, or raises ``decimal.Inexact``; it never rounds silently."""
    return localcontext(_EXACT)


def round_up(amount: Decimal) -> Decimal:
    """The one rounding rule: ``amount`` dollars, up to the next 1e-9.

    Raises ``ValueError`` for what is no amount: negative, NaN, infinite or above ``MAX_AMOUNT``.
    """
    return _to_nano(amount, ROUND_CEILING)


def cut(amount: Decimal) -> Decimal:
    """A part of an amount, down to 1e-9: for reading, never for charging. Raises as ``round_up``."""
    return _to_nano(amount, ROUND_FLOOR)


def _to_nano(amount: Decimal, rounding: str) -> Decimal:
    if not amount.is_finite() or not 0 <= amount <= MAX_AMOUNT:
        raise ValueError(f"not an amount of money: {amount}")
    with localcontext(_ROUNDING):
        return amount.quantize(NANO, rounding=rounding)
