"""What is known of a request when it has ended: the one source of its log line, span and metrics."""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import structlog
from grpc import StatusCode

from budget.core import Budget, Clock
from budget.ledger import Spend
from servicekit.call import Principal
from servicekit.endings import Ending, Verdict
from servicekit.storm import StormLimit

StormKind = tuple[str, str, str]
"""Method, ending and reason, as the server names them."""

_TELL_EVERY: Final = 1.0
"""Seconds between two looks at what is over."""

# The codes that are errors of a server by the RPC semantic conventions; the rest are the caller's.
SERVER_ERRORS: Final = frozenset(
    {
        StatusCode.UNKNOWN,
        StatusCode.DEADLINE_EXCEEDED,
        StatusCode.UNIMPLEMENTED,
        StatusCode.INTERNAL,
        StatusCode.UNAVAILABLE,
        StatusCode.DATA_LOSS,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One request, ended. `method` has no leading slash; `took` is in seconds."""

    method: str
    principal: Principal | None
    verdict: Verdict
    budget: Budget
    took: float

    @property
    def failed(self) -> bool:
        """Whether the end is an error of the server. A stream that was ended on purpose is none."""
        return self.verdict.code in SERVER_ERRORS and self.verdict.reason != "RESUME"


class RequestLog:
    """One line a request with its ledger, and of failures in a storm a sample with counts. Never payloads.

    The line of a request that did not go well has each spend by itself, too.
    """

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._log = structlog.stdlib.get_logger("hourglass.request")
        self._storm: StormLimit[StormKind] = StormLimit(clock)
        self._clock = clock
        self._told = clock()

    def write(self, label: str, report: Report) -> None:
        """INFO, WARNING for errors of the server, ERROR with the traceback for faults.

        label: the method as the server names it, or one name for all that it does not serve.
        """
        self._tell_what_is_over()
        if report.verdict.ending is Ending.OK:
            self._log.info("request", **_fields(report))
            return
        kind = (label, report.verdict.ending.value, report.verdict.reason)
        if self._storm.passes(kind):
            self._write_failure(report, left_out=self._storm.left_out(kind))

    def close(self) -> None:
        """Tells what was left out and not told yet."""
        self._tell(self._storm.over(after=0.0))

    def _write_failure(self, report: Report, *, left_out: int) -> None:
        fields = {**_fields(report), "spends": list(map(_fact, report.budget.ledger.spends))}
        if left_out:
            fields["left_out"] = left_out
        if report.verdict.code is StatusCode.INTERNAL:
            self._log.error("request", **fields, exc_info=report.verdict.error)
        elif report.failed:
            self._log.warning("request", **fields)
        else:
            self._log.info("request", **fields)

    def _tell_what_is_over(self) -> None:
        now = self._clock()
        if now - self._told >= _TELL_EVERY:
            self._told = now
            self._tell(self._storm.over())

    def _tell(self, counts: list[tuple[StormKind, int]]) -> None:
        for (label, ending, reason), count in counts:
            self._log.warning("requests left out", method=label, ending=ending, reason=reason, left_out=count)


def _seconds(time_left: float) -> float | None:
    """None for a budget without an end: JSON has no word for infinity."""
    return round(time_left, 6) if math.isfinite(time_left) else None


def _fact(spend: Spend) -> Mapping[str, object]:
    """One spend for whoever searches; the ledger's text is for whoever reads."""
    return {
        "dependency": spend.dependency,
        "method": spend.method,
        "attempt": spend.attempt,
        "remaining": _seconds(spend.remaining),
        "limit": _seconds(spend.limit),
        "took": round(spend.took, 6),
        "outcome": spend.outcome.value,
        "reason": spend.reason,
    }


def _fields(report: Report) -> dict[str, object]:
    principal, verdict, budget = report.principal, report.verdict, report.budget
    return {
        "method": report.method,
        "tenant": principal.tenant if principal else "",
        "user": principal.user if principal else "",
        "authenticated_by": principal.authenticated_by if principal else "",
        "code": verdict.code.name,
        "reason": verdict.reason,
        "ending": verdict.ending.value,
        "duration": round(report.took, 6),
        "budget_initial": _seconds(budget.initial),
        "budget_remaining": _seconds(budget.remaining()),
        "ledger": budget.ledger.as_text(max_bytes=1 << 20),
    }
