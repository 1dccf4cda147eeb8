"""Spans of runs. A run is work of its own, so its span is a root that links to the request that made the job.

Messaging semantic conventions: the one who processes links to the one who created. Calls to providers have
spans of their own below it (`worker.providers.spans`).
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.trace import SpanKind
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobs_store.runs import Claimed

_W3C = TraceContextTextMapPropagator()
_NO_PARENT = otel_context.Context()


class RunTraces:
    """Makes spans of runs."""

    def __init__(self, tracer: trace.Tracer | None = None) -> None:
        self._tracer = tracer or trace.get_tracer("hourglass.worker")

    def claim(self, started: int, runs: int) -> None:
        """The span of a claim that brought `runs` jobs; `started` in nanoseconds since the Unix epoch."""
        span = self._tracer.start_span(
            "claim", context=_NO_PARENT, start_time=started, attributes={"hourglass.claim.runs": runs}
        )
        span.end()

    @contextmanager
    def run(self, claimed: Claimed) -> Iterator[trace.Span]:
        """The span of one run, current in the block."""
        attributes: dict[str, str | int] = {
            "hourglass.tenant": claimed.tenant,
            "hourglass.job.id": str(claimed.job_id),
            "hourglass.job.lane": claimed.lane,
            "hourglass.attempt.number": claimed.attempt_number,
        }
        with self._tracer.start_as_current_span(
            f"run {claimed.lane}",
            context=_NO_PARENT,
            kind=SpanKind.CONSUMER,
            attributes=attributes,
        ) as span:
            if span.is_recording():
                _link(span, claimed)
            yield span


def _link(span: trace.Span, claimed: Claimed) -> None:
    headers = {"traceparent": claimed.traceparent, "tracestate": claimed.tracestate}
    made_by = trace.get_current_span(_W3C.extract(headers, context=_NO_PARENT)).get_span_context()
    if made_by.is_valid:
        span.add_link(made_by)
