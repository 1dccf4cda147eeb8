"""A collector of OpenTelemetry's protocol over gRPC: keeps what it is sent, and draws a trace as a tree."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import grpc.aio
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2, logs_service_pb2_grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What happened in a span; `after` its start, in seconds."""

    name: str
    after: float
    attributes: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One span as it came; ids in hex, times in seconds. links: (trace id, span id)."""

    service: str
    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    links: Sequence[tuple[str, str]]
    attributes: Mapping[str, Any]
    events: Sequence[Event]
    start: float
    end: float
    error: str | None


@dataclass(slots=True, kw_only=True)
class Collector:
    """What was received. text: everything, for whoever looks for what must not be there."""

    address: str = ""
    spans: list[Received] = field(default_factory=list)
    metrics: set[tuple[str, str]] = field(default_factory=set)
    """Service and name."""
    text: list[str] = field(default_factory=list)

    def trace(self, trace_id: str) -> list[Received]:
        """Its spans in the order of their starts."""
        return sorted((s for s in self.spans if s.trace_id == trace_id), key=lambda span: span.start)

    def linked_to(self, span: Received) -> list[Received]:
        """The spans that link to one, in the order of their starts."""
        link = (span.trace_id, span.span_id)
        return sorted((s for s in self.spans if link in s.links), key=lambda span: span.start)


class _Traces(trace_service_pb2_grpc.TraceServiceServicer):
    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    async def Export(self, request: Any, _context: Any) -> Any:  # noqa: N802 - the contract's name
        self._collector.text.append(str(request))
        for resource in request.resource_spans:
            service = str(_values(resource.resource.attributes)["service.name"])
            for scope in resource.scope_spans:
                self._collector.spans += [_received(service, span) for span in scope.spans]
        return trace_service_pb2.ExportTraceServiceResponse()


class _Metrics(metrics_service_pb2_grpc.MetricsServiceServicer):
    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    async def Export(self, request: Any, _context: Any) -> Any:  # noqa: N802 - the contract's name
        self._collector.text.append(str(request))
        for resource in request.resource_metrics:
            service = str(_values(resource.resource.attributes)["service.name"])
            for scope in resource.scope_metrics:
                self._collector.metrics |= {(service, metric.name) for metric in scope.metrics}
        return metrics_service_pb2.ExportMetricsServiceResponse()


class _Logs(logs_service_pb2_grpc.LogsServiceServicer):
    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    async def Export(self, request: Any, _context: Any) -> Any:  # noqa: N802 - the contract's name
        self._collector.text.append(str(request))
        return logs_service_pb2.ExportLogsServiceResponse()


@asynccontextmanager
async def collecting() -> AsyncIterator[Collector]:
    """A collector that listens on a free port."""
    collector, server = Collector(), grpc.aio.server()
    services: Sequence[tuple[Any, Any]] = (
        (trace_service_pb2_grpc.add_TraceServiceServicer_to_server, _Traces),
        (metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server, _Metrics),
        (logs_service_pb2_grpc.add_LogsServiceServicer_to_server, _Logs),
    )
    for register, servicer in services:
        register(servicer(collector), server)
    collector.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    try:
        yield collector
    finally:
        await server.stop(0)


def _received(service: str, span: Span) -> Received:
    start = span.start_time_unix_nano / 1e9
    return Received(
        service=service,
        name=span.name,
        kind=Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        links=[(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
        attributes=_values(span.attributes),
        events=[
            Event(
                name=event.name,
                after=(event.time_unix_nano / 1e9) - start,
                attributes=_values(event.attributes),
            )
            for event in span.events
        ],
        start=start,
        end=span.end_time_unix_nano / 1e9,
        error=span.status.message if span.status.code == Status.STATUS_CODE_ERROR else None,
    )


def _values(pairs: Iterable[KeyValue]) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    return getattr(value, kind) if kind else None


def tree(spans: Sequence[Received]) -> str:
    """A trace as text: a line a span, below its parent, with its budget's spends below it."""
    own = {span.span_id for span in spans}
    begin = min(span.start for span in spans)
    roots = [span for span in spans if span.parent_id not in own]
    return "\n".join(line for root in roots for line in _lines(root, spans, begin, depth=0))


def _lines(span: Received, spans: Sequence[Received], begin: float, *, depth: int) -> list[str]:
    indent = "   " * depth
    lines = [f"{indent}{_head(span, begin)}"]
    lines += [f"{indent}   - {_spend(event)}" for event in span.events]
    for child in spans:
        if child.parent_id == span.span_id:
            lines += _lines(child, spans, begin, depth=depth + 1)
    return lines


_SHOWN = (
    "rpc.response.status_code",
    "hourglass.ending",
    "hourglass.reason",
    "hourglass.budget.initial",
    "hourglass.attempt.number",
    "hourglass.attempt.end",
    "db.system.name",
    "error.type",
    "gen_ai.provider.name",
    "gen_ai.usage.output_tokens",
)


def _head(span: Received, begin: float) -> str:
    shown = [f"{name}={_short(span.attributes[name])}" for name in _SHOWN if name in span.attributes]
    at, took = (span.start - begin) * 1000, (span.end - span.start) * 1000
    kind = span.kind.lower()
    return f"{span.service}: {span.name} ({kind}, at {at:.1f} ms, {took:.1f} ms) {' '.join(shown)}".rstrip()


def _spend(event: Event) -> str:
    facts = event.attributes
    called = f"{facts['hourglass.dependency']}/{facts['hourglass.dependency.method']}"
    limit = _ms(facts.get("hourglass.budget.limit"))
    return (
        f"{event.name}: {called} {_ms(facts['hourglass.budget.took'])} of {limit}, "
        f"{_ms(facts['hourglass.budget.remaining'])} were left, {facts['hourglass.outcome']}"
    )


def _ms(seconds: float | None) -> str:
    return "no limit" if seconds is None else f"{seconds * 1000:.1f} ms"


def _short(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)
