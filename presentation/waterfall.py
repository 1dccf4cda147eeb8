"""A budget ledger as a picture: one line a spend, its bar where in the request's time it lay. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from google.protobuf.duration_pb2 import Duration

from hourglass.budget.v1.ledger_pb2 import BudgetLedger, BudgetSpend, SpendOutcome
from servicekit.wire_time import seconds_of

_UNTRIED: Final = frozenset(
    {
        SpendOutcome.SPEND_OUTCOME_SKIPPED_LOW,
        SpendOutcome.SPEND_OUTCOME_REFUSED_LOW,
        SpendOutcome.SPEND_OUTCOME_RETRY_SKIPPED,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ink:
    """The characters of the bars."""

    bar: str
    mark: str
    """Where something was decided against."""


BLOCKS: Final = Ink(bar="█", mark="·")
ASCII: Final = Ink(bar="#", mark=".")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One spend: whom it called, its bar, its figures, and how it ended (lower case, `ok`)."""

    label: str
    bar: str
    figures: str
    outcome: str


def headline(ledger: BudgetLedger) -> str:
    """What the request had, and what it used of it."""
    method = ledger.method.rpartition("/")[2]
    if ledger.spends and not ledger.HasField("took_duration"):
        spendable = milliseconds(_spendable(ledger))
        return f"{method} took at least {milliseconds(_end(ledger))} of {spendable} that it could spend"
    took, reserve = seconds_of(ledger.took_duration), seconds_of(ledger.reserve_duration)
    if not ledger.HasField("initial_duration"):
        return f"{method} took {milliseconds(took)} of a budget without an end"
    initial = seconds_of(ledger.initial_duration)
    share = took / initial if initial else 1.0
    return (
        f"{method} took {milliseconds(took)} of {milliseconds(initial)} ({share:.1%}), "
        f"{milliseconds(reserve)} of them kept for the answer"
    )


def rows(ledger: BudgetLedger, *, width: int, ink: Ink = BLOCKS) -> Sequence[Row]:
    """The spends in order of their start, their bars `width` characters wide: 0 to the request's end."""
    total = _end(ledger)
    ordered = sorted(ledger.spends, key=lambda spend: _start(ledger, spend))
    return [_row(ledger, spend, total=total, width=width, ink=ink) for spend in ordered]


def scale(ledger: BudgetLedger, *, width: int) -> str:
    """The line under the bars: from 0 to the request's end."""
    end = milliseconds(_end(ledger))
    return f"0{end:>{max(width - 1, len(end) + 1)}}"


def omitted(ledger: BudgetLedger) -> str:
    """What the ledger had no room for; empty when it had."""
    count = ledger.omitted_count
    return f"and {count} more that the ledger had no room for" if count else ""


def milliseconds(seconds: float) -> str:
    """A time for people: three significant figures, at most two decimals."""
    value = seconds * 1000
    decimals = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:.{decimals}f} ms"


def _row(ledger: BudgetLedger, spend: BudgetSpend, *, total: float, width: int, ink: Ink) -> Row:
    start, took = _start(ledger, spend), seconds_of(spend.took_duration)
    outcome = SpendOutcome.Name(spend.outcome).removeprefix("SPEND_OUTCOME_").lower()
    return Row(
        label=f"{spend.dependency}/{spend.method}" + (f" #{spend.attempt}" if spend.attempt > 1 else ""),
        bar=_bar(start, took, total=total, width=width, ink=ink, untried=spend.outcome in _UNTRIED),
        figures=f"{milliseconds(took).removesuffix(' ms')} of {_limit(spend.limit_duration, spend)}",
        outcome=f"{outcome} {spend.reason}".strip(),
    )


def _bar(start: float, took: float, *, total: float, width: int, ink: Ink, untried: bool) -> str:
    cells = width / total if total > 0 else 0.0
    first = min(math.floor(start * cells), width - 1)
    length = 1 if untried else max(1, min(round(took * cells), width - first))
    return (" " * first + (ink.mark if untried else ink.bar) * length).ljust(width)


def _start(ledger: BudgetLedger, spend: BudgetSpend) -> float:
    """Seconds from the start of the request to that of the spend; else what could be spent then tells."""
    if spend.HasField("start_duration"):
        return seconds_of(spend.start_duration)
    if not spend.HasField("remaining_duration"):
        return 0.0
    return max(0.0, _spendable(ledger) - seconds_of(spend.remaining_duration))


def _spendable(ledger: BudgetLedger) -> float:
    """What could be spent at the start; where that is not kept, what could be before the first spend."""
    if ledger.HasField("initial_duration"):
        return seconds_of(ledger.initial_duration) - seconds_of(ledger.reserve_duration)
    return max((seconds_of(spend.remaining_duration) for spend in ledger.spends), default=0.0)


def _end(ledger: BudgetLedger) -> float:
    ends = [_start(ledger, spend) + seconds_of(spend.took_duration) for spend in ledger.spends]
    return max([seconds_of(ledger.took_duration), *ends])


def _limit(limit: Duration, spend: BudgetSpend) -> str:
    return milliseconds(seconds_of(limit)) if spend.HasField("limit_duration") else "inf ms"
