"""How long requests take, how they end, and what their budgets are spent on, as numbers."""

import math
from typing import Final

from opentelemetry import metrics

from budget.ledger import Outcome, Spend
from servicekit.report import Report

_BUDGET_BUCKETS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_OVERSHOOT_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1)
_UNTRIED: Final = frozenset({Outcome.SKIPPED_LOW, Outcome.REFUSED_LOW, Outcome.RETRY_SKIPPED})
_DURATION_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)


class RequestMetrics:
    """How long requests take, how they end, and what their budgets are spent on."""

    def __init__(self, meter: metrics.Meter) -> None:
        self._duration = meter.create_histogram(
            "rpc.server.call.duration",
            unit="s",
            description="Duration of served calls",
            explicit_bucket_boundaries_advisory=_DURATION_BUCKETS,
        )
        self._spends = meter.create_counter(
            "hourglass.budget.spends", unit="{spend}", description="Spends of budgets, skips included"
        )
        self._spent = meter.create_counter(
            "hourglass.budget.spent", unit="s", description="Time spent of budgets"
        )
        self._at_entry = meter.create_histogram(
            "hourglass.budget.at_entry",
            unit="s",
            description="Budgets that requests came with",
            explicit_bucket_boundaries_advisory=_BUDGET_BUCKETS,
        )
        self._remaining = meter.create_histogram(
            "hourglass.budget.remaining",
            unit="s",
            description="What could be spent when a spend began",
            explicit_bucket_boundaries_advisory=_BUDGET_BUCKETS,
        )
        self._overshoot = meter.create_histogram(
            "hourglass.budget.overshoot",
            unit="s",
            description="How far a spend went beyond the limit that it was given",
            explicit_bucket_boundaries_advisory=_OVERSHOOT_BUCKETS,
        )
        self._skipped = meter.create_counter(
            "hourglass.budget.skipped",
            unit="{call}",
            description="Calls and retries that were decided against, by the reason",
        )
        self._would_cut = meter.create_counter(
            "hourglass.budget.would_cut",
            unit="{spend}",
            description="Spends that a policy in observe mode would have cut",
        )

    def record(self, method: str, report: Report) -> None:
        """Counts one request under the label of its method, which no caller can invent."""
        verdict = report.verdict
        attributes = {
            "rpc.system.name": "grpc",
            "rpc.method": method,
            "rpc.response.status_code": verdict.code.name,
            "hourglass.ending": verdict.ending.value,
        }
        if report.failed:
            attributes["error.type"] = verdict.reason or verdict.code.name
        self._duration.record(report.took, attributes)
        if not report.budget.unbounded:
            self._at_entry.record(report.budget.initial, {"rpc.method": method})
        for spend in report.budget.ledger.spends:
            self.record_spend(spend)
        for total in report.budget.ledger.totals:
            spent = {
                "rpc.method": method,
                "hourglass.dependency": total.dependency,
                "hourglass.dependency.method": total.method,
                "hourglass.outcome": total.outcome.value,
            }
            self._spends.add(total.count, spent)
            self._spent.add(total.took, spent)
            if total.would_cut:
                self._would_cut.add(total.would_cut, spent)

    def record_spend(self, spend: Spend) -> None:
        """Counts one spend: at the end of its request, or when the request's ledger forgets it."""
        called = {
            "hourglass.dependency": spend.dependency,
            "hourglass.dependency.method": spend.method,
        }
        if spend.outcome in _UNTRIED:
            reason = spend.reason or spend.outcome.value
            self._skipped.add(
                1, {**called, "hourglass.outcome": spend.outcome.value, "hourglass.reason": reason}
            )
            return
        if not math.isinf(spend.remaining):
            self._remaining.record(spend.remaining, called)
        given = min(spend.limit, spend.remaining)
        if spend.took > given:
            self._overshoot.record(spend.took - given, called)
