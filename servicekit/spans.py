"""The server span of a request (RPC semantic conventions 1.44), its status set from the verdict."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final
from urllib.parse import unquote

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from servicekit.report import Report

OTHER_METHOD: Final = "_OTHER"
_W3C: Final = TraceContextTextMapPropagator()


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
