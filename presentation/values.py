"""Single values of the contract as people read them: money, times, durations, names of enums."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Protocol

from google.protobuf.timestamp_pb2 import Timestamp
from google.type.money_pb2 import Money

from presentation.waterfall import milliseconds
from servicekit.wire_money import amount_of
from servicekit.wire_time import datetime_of

ABSENT = "-"


class NamedEnum(Protocol):
    """The type of an enum of the contract."""

    def Name(self, number: int) -> str:  # noqa: N802 - protobuf's name
        """The value's full name."""


def dollars(money: Money) -> str:
    """An amount in full: 1e-9 dollars are money too."""
    return dollars_of(amount_of(money))


def dollars_of(amount: Decimal) -> str:
    """As `dollars`, of an amount."""
    return f"{'-' if amount < 0 else ''}${abs(amount):.9f}"


def moment(timestamp: Timestamp) -> str:
    """A time in UTC, to the second; a dash where there is none."""
    if not timestamp.seconds:
        return ABSENT
    return f"{datetime_of(timestamp):%Y-%m-%d %H:%M:%SZ}"


def between(start: Timestamp, end: Timestamp) -> str:
    """From one time to another; a dash where one of them is not there."""
    if not (start.seconds and end.seconds):
        return ABSENT
    return milliseconds(seconds_between(start, end))


def seconds_between(start: Timestamp, end: Timestamp) -> float:
    """Seconds from one time to another."""
    return (datetime_of(end) - datetime_of(start)).total_seconds()


def span(seconds: float) -> str:
    """A duration for people: its two largest units, `1 h 5 min`; milliseconds below ten seconds."""
    if abs(seconds) < 10:
        return milliseconds(seconds)
    parts: list[str] = []
    left = round(abs(seconds))
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count or (parts and unit == "s"):
            parts.append(f"{count} {unit}")
    return ("-" if seconds < 0 else "") + " ".join(_largest(parts))


def short_name(enum: NamedEnum, number: int, prefix: str) -> str:
    """A value's name without its prefix; its number when this release does not know it."""
    try:
        return enum.Name(number).removeprefix(prefix)
    except ValueError:
        return str(number)


def _largest(parts: Sequence[str]) -> Sequence[str]:
    return [part for part in parts if not part.startswith("0 ")][:2]
