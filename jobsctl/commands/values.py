"""Values that are typed: durations, amounts, times, labels. Each error names what is wanted."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import click
from click.shell_completion import CompletionItem
from typing_extensions import override

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)?")
LONGEST: Final = 100 * 366 * 86_400.0
"""Seconds; more is a mistake of units, and may not fit into what is sent."""
_UNITS: Final[Mapping[str, float]] = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


class Duration(click.ParamType[float]):
    """Seconds, or a number with a unit: 500ms, 2s, 5m, 24h, 7d."""

    name = "duration"

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        found = _DURATION.fullmatch(value)
        seconds = float(found[1]) * _UNITS[found[2] or "s"] if found else 0.0
        if not 0 < seconds <= LONGEST:
            self.fail(f"{value!r} is no duration such as 2, 500ms, 5m or 24h.", param, ctx)
        return seconds


class Amount(click.ParamType[Decimal]):
    """Dollars, exactly: 0.05 or $0.05."""

    name = "dollars"

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Decimal:
        try:
            amount = Decimal(str(value).removeprefix("$"))
        except InvalidOperation:
            self.fail(f"{value!r} is no amount such as 0.05.", param, ctx)
        if not amount.is_finite():
            self.fail(f"{value!r} is no amount of money.", param, ctx)
        return amount


class Moment(click.ParamType[datetime]):
    """A time: 2026-11-30T12:00:00Z (UTC unless it says otherwise), or from now: +10m, -24h."""

    name = "time"

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        if value[:1] in {"+", "-"}:
            offset = timedelta(seconds=DURATION.convert(value[1:], param, ctx))
            return datetime.now(UTC) + (offset if value[0] == "+" else -offset)
        try:
            moment = datetime.fromisoformat(value)
            return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is no time such as 2026-11-30T12:00:00Z, +10m or -24h.", param, ctx)


class Label(click.ParamType[tuple[str, str]]):
    """key=value."""

    name = "key=value"

    @override
    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        key, equals, rest = value.partition("=")
        if not (key and equals):
            self.fail(f"{value!r} is not key=value.", param, ctx)
        return key, rest


class Lifetime(click.ParamType[tuple[str, float]]):
    """class=duration: how long rows of a class are kept."""

    name = "class=duration"

    @override
    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, float]:
        name, _, duration = value.partition("=")
        if name not in CLASSES:
            self.fail(f"{value!r} is no class=duration; classes are {', '.join(CLASSES)}.", param, ctx)
        return name, DURATION.convert(duration, param, ctx)

    @override
    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [CompletionItem(f"{name}=") for name in CLASSES if name.startswith(incomplete)]


CLASSES: Final = ("payload", "events", "result", "attempts", "jobs", "calls", "quotes", "audit")
DURATION: Final = Duration()
AMOUNT: Final = Amount()
MOMENT: Final = Moment()
LABEL: Final = Label()
LIFETIME: Final = Lifetime()
