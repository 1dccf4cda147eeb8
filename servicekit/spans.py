"""The server span of a request (RPC semantic conventions 1.44), its status set from the verdict."""

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final
from urllib.parse import unquote

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from budget.core import Budget
from budget.ledger import Spend
from budget.spans import GRPC, server_attributes, trace_headers
from servicekit.report import Report

OTHER_METHOD: Final = "_OTHER"
_LONGEST_METHOD: Final = 256
_W3C: Final = TraceContextTextMapPropagator()


@contextmanager
def server_span(tracer: Tracer, method: str, metadata: Mapping[str, str], peer: str) -> Iterator[Span]:
    """A span for one request, current in the body, with the caller's span as its parent.

    It is ended by `end_span`, which knows how the request ended. A process that records nothing of a trace
    hands on the caller's context as it came, so that whoever is called still belongs to the trace.
    """
    parent = _W3C.extract(metadata)
    attributes = {**GRPC, "rpc.method": method}
    span = tracer.start_span(method, context=parent, kind=SpanKind.SERVER, attributes=attributes)
    if span.is_recording():
        span.set_attributes(_peer(peer))
    elif (callers := trace.get_current_span(parent)).get_span_context().is_valid:
        span = callers
    with trace.use_span(span, record_exception=False, set_status_on_exception=False):
        yield span


def _peer(peer: str) -> Mapping[str, str | int]:
    """What gRPC's `ipv4:127.0.0.1:40000`, `ipv6:%5B::1%5D:40000` or `unix:/path` says of the other end."""
    scheme, _, rest = unquote(peer).partition(":")
    host, _, port = rest.rpartition(":")
    if scheme == "unix" or not port.isdecimal():
        return {"network.peer.address": rest, "network.transport": scheme}
    return {
        "network.peer.address": host.strip("[]"),
        "network.peer.port": int(port),
        "network.transport": "tcp",
    }


def trace_context() -> Mapping[str, str]:
    """The W3C headers of the current span: `traceparent` and `tracestate`, where there is one."""
    return dict(trace_headers(trace.get_current_span()))


def end_span(span: Span, label: str, report: Report, *, address: str = "") -> None:
    """Writes the ledger as events, the verdict as status, and ends the span.

    label: the method as the server names it. address: where it listens.
    """
    if not span.is_recording():
        return
    verdict = report.verdict
    span.set_attributes(
        {
            **server_attributes(address),
            "rpc.response.status_code": verdict.code.name,
            "hourglass.ending": verdict.ending.value,
            **_finite(
                {
                    "hourglass.budget.initial": report.budget.initial,
                    "hourglass.budget.remaining": report.budget.remaining(),
                }
            ),
        }
    )
    if label == OTHER_METHOD:
        span.set_attribute("rpc.method_original", report.method[:_LONGEST_METHOD])
    if report.principal is not None:
        span.set_attribute("hourglass.tenant", report.principal.tenant)
    if verdict.reason:
        span.set_attribute("hourglass.reason", verdict.reason)
    if report.failed:
        span.set_attribute("error.type", verdict.code.name)
        span.set_status(Status(StatusCode.ERROR, verdict.reason))
    if verdict.reason == "INTERNAL" and verdict.error is not None:
        span.set_attribute("exception.type", type(verdict.error).__qualname__)
    _add_ledger(span, report.budget)
    span.end()


def _add_ledger(span: Span, budget: Budget) -> None:
    """Every spend of a budget as an event, at the time when it began."""
    now, wall = budget.clock(), time.time_ns()
    for spend in budget.ledger.spends:
        began = now if spend.started is None else spend.started
        span.add_event("hourglass.budget.spend", _facts(spend), timestamp=wall - int((now - began) * 1e9))


def _facts(spend: Spend) -> Mapping[str, str | int | float]:
    """What an event tells of a spend. Times are seconds; a limit that there is not is left out."""
    return {
        "hourglass.dependency": spend.dependency,
        "hourglass.dependency.method": spend.method,
        "hourglass.attempt": spend.attempt,
        "hourglass.outcome": spend.outcome.value,
        **_finite(
            {
                "hourglass.budget.remaining": spend.remaining,
                "hourglass.budget.limit": spend.limit,
                "hourglass.budget.took": spend.took,
            }
        ),
        **({"hourglass.reason": spend.reason} if spend.reason else {}),
        **({"hourglass.would_cut": True} if spend.would_cut else {}),
    }


def _finite(times: Mapping[str, float]) -> Mapping[str, float]:
    """Without those that never end: no format of numbers outside Python has a common word for them."""
    return {name: seconds for name, seconds in times.items() if math.isfinite(seconds)}
