"""Single values of the contract as people read them: money, times, durations, names of enums."""

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from google.protobuf.timestamp_pb2 import Timestamp
from google.type.money_pb2 import Money

from presentation.waterfall import milliseconds
from servicekit.wire_money import amount_of
from servicekit.wire_time import datetime_of

if TYPE_CHECKING:
    from google.protobuf.internal.enum_type_wrapper import _EnumTypeWrapper

ABSENT: Final = "-"
ZERO: Final = "UNSPECIFIED"


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


def lasted(start: Timestamp, end: Timestamp) -> str:
    """As `between`, in units that suit the length."""
    if not (start.seconds and end.seconds):
        return ABSENT
    return span(seconds_between(start, end))


def seconds_between(start: Timestamp, end: Timestamp) -> float:
    """Seconds from one time to another."""
    return (datetime_of(end) - datetime_of(start)).total_seconds()


def span(seconds: float) -> str:
    """A duration for people: 12.4 ms, 8.62 s, 1 h 5 min."""
    if abs(seconds) < 1:
        return milliseconds(seconds)
    if abs(seconds) < 60:
        return f"{seconds:.3g} s"
    parts: list[str] = []
    left = round(abs(seconds))
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        count, left = divmod(left, size)
        parts += [f"{count} {unit}"] if count or parts else []
    shown = [part for part in parts[:2] if not part.startswith("0 ")]
    return ("-" if seconds < 0 else "") + " ".join(shown)


def short_name(enum: "_EnumTypeWrapper[Any]", number: int) -> str:
    """A value's name without the enum's prefix; its number when this release does not know it."""
    known = enum.DESCRIPTOR.values_by_number.get(number)
    if known is None:
        return str(number)
    return known.name.removeprefix(enum.DESCRIPTOR.values[0].name.removesuffix(ZERO))


def counted(count: int, noun: str) -> str:
    """So many of something whose plural ends with s."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def printable(text: str) -> str:
    """The text without what could steer a terminal: control characters are spelled out."""
    return "".join(one if one in "\n\t" or one.isprintable() else repr(one)[1:-1] for one in text)
