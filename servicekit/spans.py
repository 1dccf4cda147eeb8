"""The server span of a request (RPC semantic conventions 1.44), its status set from the verdict."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final
from urllib.parse import unquote

from opentelemetry import metrics, trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from budget.ledger import Outcome, Spend
from servicekit.report import Report

OTHER_METHOD: Final = "_OTHER"
_W3C: Final = TraceContextTextMapPropagator()
_BUDGET_BUCKETS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_OVERSHOOT_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1)
_UNTRIED: Final = frozenset({Outcome.SKIPPED_LOW, Outcome.REFUSED_LOW, Outcome.RETRY_SKIPPED})
_DURATION_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)


@contextmanager
def server_span(tracer: Tracer, method: str, metadata: Mapping[str, str], peer: str) -> Iterator[Span]:
    """A span for one request, current in the body, with the caller's span as its parent.

    It is ended by `end_span`, which knows how the request ended. A process that records nothing of a trace
    hands on the caller's context as it came, so that whoever is called still belongs to the trace.
    """
    parent = _W3C.extract(metadata)
    attributes = {"rpc.system.name": "grpc", "rpc.method": method}
    span = tracer.start_span(method, context=parent, kind=SpanKind.SERVER, attributes=attributes)
    if span.is_recording():
        span.set_attribute("network.peer.address", _address(peer))
    elif (callers := trace.get_current_span(parent)).get_span_context().is_valid:
        span = callers
    with trace.use_span(span, record_exception=False, set_status_on_exception=False):
        yield span


def _address(peer: str) -> str:
    """The address in gRPC's `ipv4:127.0.0.1:40000`, `ipv6:%5B::1%5D:40000` or `unix:/path`."""
    scheme, _, rest = unquote(peer).partition(":")
    return rest if scheme == "unix" else rest.rpartition(":")[0].strip("[]")


def trace_context() -> Mapping[str, str]:
    """The W3C headers of the current span: `traceparent` and `tracestate`, where there is one."""
    headers: dict[str, str] = {}
    _W3C.inject(headers)
    return headers


def end_span(span: Span, report: Report) -> None:
    """Writes the ledger as events, the verdict as status, and ends the span."""
    if not span.is_recording():
        return
    verdict = report.verdict
    span.set_attributes(
        {
            "rpc.response.status_code": verdict.code.name,
            "hourglass.ending": verdict.ending.value,
            "hourglass.budget.initial": report.budget.initial,
            "hourglass.budget.remaining": report.budget.remaining(),
        }
    )
    if report.principal is not None:
        span.set_attribute("hourglass.tenant", report.principal.tenant)
        span.set_attribute("hourglass.user", report.principal.user)
        span.set_attribute("hourglass.authenticated_by", report.principal.authenticated_by)
    if report.failed:
        span.set_attribute("error.type", verdict.reason or verdict.code.name)
        span.set_status(Status(StatusCode.ERROR, verdict.reason))
    if verdict.reason == "INTERNAL" and verdict.error is not None:
        span.set_attribute("exception.type", type(verdict.error).__qualname__)
    _add_ledger(span, report)
    span.end()


def _add_ledger(span: Span, report: Report) -> None:
    for spend in report.budget.ledger.spends:
        attributes: dict[str, str | int | float | bool] = {
            "dependency": spend.dependency,
            "method": spend.method,
            "remaining": spend.remaining,
            "limit": spend.limit,
            "took": spend.took,
            "outcome": spend.outcome.value,
            "attempt": spend.attempt,
            "reason": spend.reason,
            "would_cut": spend.would_cut,
        }
        span.add_event("budget.spend", attributes)


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
            self._record_spend(spend)
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

    def _record_spend(self, spend: Spend) -> None:
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
