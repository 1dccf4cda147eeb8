"""Enums: the store's names are the contract's, less the prefix that protobuf wants."""

from __future__ import annotations

import re
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from google.protobuf.internal.enum_type_wrapper import _EnumTypeWrapper

Number = TypeVar("Number", bound=int)
Stored = TypeVar("Stored", bound=StrEnum)


def to_wire(enum: _EnumTypeWrapper[Number], value: str | None) -> Number:
    """The number of a stored name; that of UNSPECIFIED for None. ValueError for a name that it lacks."""
    return enum.Value(f"{_prefix(enum.DESCRIPTOR.name)}{value or 'UNSPECIFIED'}")


def from_wire(enum: _EnumTypeWrapper[Any], number: int, stored: type[Stored]) -> Stored | None:
    """The stored value of a number; None for UNSPECIFIED and for what this release does not know."""
    known = enum.DESCRIPTOR.values_by_number.get(number)
    name = known.name.removeprefix(_prefix(enum.DESCRIPTOR.name)) if known else ""
    return stored[name] if name in stored.__members__ else None


@cache
def _prefix(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper() + "_"
