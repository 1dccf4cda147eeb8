"""Where the time of a request went: every spend, skips included, in memory and as one line of text.

The line goes to callers as trailing metadata. Times are milliseconds with at most one decimal:

    ledger = [ spend *( "; " spend ) ] [ "; " ] [ "+" cut ]
    spend  = dependency "/" method " " took "/" limit " of " remaining " " outcome
             [ "#" attempt ] [ "~" ] [ ":" reason ]

`remaining` is what could be spent when the call began. "#2" is the second try (the first is not marked). "~"
says that a policy that only observes would have cut here. "+3" says that three spends are not shown.

    pricing/GetPrice 12.4/300 of 785.2 ok; postgres/create_job 150/150 of 772 timeout
"""

import math
import re
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class Outcome(StrEnum):
    """How a spend ended."""

    OK = "ok"
    TIMEOUT = "timeout"
    """The dependency used up its limit while budget remained."""
    EXHAUSTED = "exhausted"
    """The budget of the request ran out."""
    CANCELLED = "cancelled"
    """The caller left."""
    ERROR = "error"
    SKIPPED_LOW = "skipped_low"
    """Optional, and what remained was below the floor: not tried."""
    REFUSED_LOW = "refused_low"
    """Required, and what remained was below the floor: not tried."""
    RETRY_SKIPPED = "retry_skipped"
    """Another try was possible but not made; the reason says why."""


@dataclass(slots=True, kw_only=True)
class Spend:
    """One call, or one decision not to call. Times are seconds. Nobody changes one; it is not frozen because
    every call makes one, and that takes a frozen dataclass three times as long.

    started: when it began, an instant of the budget's clock; None in what was read from text.
    """

    dependency: str
    method: str
    remaining: float
    limit: float
    took: float
    outcome: Outcome
    attempt: int = 1
    reason: str = ""
    would_cut: bool = False
    started: float | None = field(default=None, compare=False)


@dataclass(slots=True, kw_only=True)
class Total:
    """All spends of one method that ended alike."""

    dependency: str
    method: str
    outcome: Outcome
    count: int = 0
    took: float = 0.0
    would_cut: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedLedger:
    """What a ledger's text says: the spends shown, and how many are not."""

    spends: tuple[Spend, ...]
    cut: int


class Ledger:
    """The spends of one request, in the order in which they ended. Remembers the latest `capacity` of them,
    because a stream may live for days; the totals stay complete. `forgetting` is told of each spend that is
    remembered no longer."""

    def __init__(self, *, capacity: int = 128) -> None:
        self.forgetting: Callable[[Spend], None] | None = None
        self._spends: deque[Spend] = deque(maxlen=capacity)
        self._totals: dict[tuple[str, str, Outcome], Total] = {}
        self._recorded = 0
        self._text: str | None = None

    def record(self, spend: Spend) -> None:
        """Writes one spend down."""
        self._recorded += 1
        self._text = None
        if self.forgetting is not None and len(self._spends) == self._spends.maxlen:
            self.forgetting(self._spends[0])
        self._spends.append(spend)
        key = (spend.dependency, spend.method, spend.outcome)
        total = self._totals.get(key)
        if total is None:
            total = Total(dependency=spend.dependency, method=spend.method, outcome=spend.outcome)
            self._totals[key] = total
        total.count += 1
        total.took += spend.took
        total.would_cut += spend.would_cut

    @property
    def spends(self) -> tuple[Spend, ...]:
        """The latest spends, oldest first."""
        return tuple(self._spends)

    @property
    def totals(self) -> tuple[Total, ...]:
        """Sums over everything that was ever recorded, by dependency, method and outcome."""
        return tuple(self._totals.values())

    def as_text(self, max_bytes: int = 1024) -> str:
        """One line of at most `max_bytes` printable ASCII characters, safe as metadata; its grammar is above.

        When not all fits, the cheapest successful spends go first, and the line says how many are not shown.
        """
        if self._text is None:
            self._text = _line(map(_text_of, self._spends), self._recorded - len(self._spends))
        return self._text if len(self._text) <= max_bytes else self._shortened(max_bytes)

    def _shortened(self, max_bytes: int) -> str:
        texts = {number: _text_of(spend) for number, spend in enumerate(self._spends)}
        cheapest_last = sorted(texts, key=self._worth, reverse=True)
        line = _line(texts.values(), self._recorded - len(texts))
        while texts and len(line) > max_bytes:
            surplus = len(line) - max_bytes
            while texts and surplus > 0:
                surplus -= len(texts.pop(cheapest_last.pop())) + len(_BETWEEN)
            line = _line(texts.values(), self._recorded - len(texts))
        return line

    def _worth(self, number: int) -> tuple[bool, float]:
        spend = self._spends[number]
        return spend.outcome is not Outcome.OK, spend.took


_BETWEEN: Final = "; "
_NOT_A_REASON: Final = re.compile(r"[^A-Za-z0-9_.-]")
_SPEND: Final = re.compile(
    r"(?P<dependency>[^/ ]+)/(?P<method>[^ ]+) (?P<took>[\d.]+)/(?P<limit>[\d.]+|inf)"
    r" of (?P<remaining>[\d.]+|inf) (?P<outcome>[a-z_]+)"
    r"(?:#(?P<attempt>\d+))?(?P<would_cut>~)?(?::(?P<reason>\S+))?"
)


def parse_text(text: str) -> ParsedLedger:
    """Reads what `Ledger.as_text` wrote; ValueError names the part that is not in the grammar."""
    parts = text.split(_BETWEEN) if text else []
    cut = int(parts.pop()[1:]) if parts and re.fullmatch(r"\+\d+", parts[-1]) else 0
    return ParsedLedger(spends=tuple(map(_spend_of, parts)), cut=cut)


def _spend_of(part: str) -> Spend:
    found = _SPEND.fullmatch(part)
    if found is None:
        raise ValueError(f"not a spend: {part!r}")
    return Spend(
        dependency=found["dependency"],
        method=found["method"],
        remaining=_seconds(found["remaining"]),
        limit=_seconds(found["limit"]),
        took=_seconds(found["took"]),
        outcome=Outcome(found["outcome"]),
        attempt=int(found["attempt"] or 1),
        reason=found["reason"] or "",
        would_cut=bool(found["would_cut"]),
    )


def _text_of(spend: Spend) -> str:
    attempt = f"#{spend.attempt}" if spend.attempt != 1 else ""
    would_cut = "~" if spend.would_cut else ""
    reason = f":{_NOT_A_REASON.sub('_', spend.reason)[:60]}" if spend.reason else ""
    times = f"{_ms(spend.took)}/{_ms(spend.limit)} of {_ms(spend.remaining)}"
    return f"{spend.dependency}/{spend.method} {times} {spend.outcome}{attempt}{would_cut}{reason}"


def _ms(seconds: float) -> str:
    if math.isinf(seconds):
        return "inf"
    text = f"{seconds * 1000:.1f}"
    return text.removesuffix(".0")


def _seconds(milliseconds: str) -> float:
    return float(milliseconds) / 1000


def _line(texts: Iterable[str], cut: int) -> str:
    return _BETWEEN.join([*texts, f"+{cut}"] if cut else texts)
