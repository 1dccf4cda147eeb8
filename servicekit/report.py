"""What is known of a request when it has ended: the one source of its log line, span and metrics."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import structlog
from grpc import StatusCode

from budget.core import Budget
from servicekit.call import Principal
from servicekit.endings import Verdict

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
    """One line a request. Never payloads."""

    def __init__(self) -> None:
        self._log = structlog.stdlib.get_logger("hourglass.request")

    def write(self, report: Report) -> None:
        """INFO, WARNING for errors of the server, ERROR with the traceback for faults."""
        verdict = report.verdict
        if verdict.code is StatusCode.INTERNAL:
            self._log.error("request", **_fields(report), exc_info=verdict.error)
        elif report.failed:
            self._log.warning("request", **_fields(report))
        else:
            self._log.info("request", **_fields(report))


def _fields(report: Report) -> Mapping[str, object]:
    principal, verdict, budget = report.principal, report.verdict, report.budget
    return {
        "method": report.method,
        "tenant": principal.tenant if principal else "",
        "user": principal.user if principal else "",
        "code": verdict.code.name,
        "reason": verdict.reason,
        "ending": verdict.ending.value,
        "duration": round(report.took, 6),
        "budget_initial": round(budget.initial, 6),
        "budget_remaining": round(budget.remaining(), 6),
        "ledger": budget.ledger.as_text(max_bytes=1 << 20),
    }
