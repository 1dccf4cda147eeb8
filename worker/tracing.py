"""Spans of runs. A run is work of its own, so its span is a root that links to the request that made the job.

Messaging semantic conventions 1.44: the one who processes links to the one who created. Every attempt is a
trace of its own, the first like the later ones: it begins when that request has long been answered, and
lasts as long as it takes. `servicekit.sampling` records the attempts of jobs whose requests are recorded.
Calls to providers have spans of their own below it (`worker.providers.spans`).
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from worker.outcome import Failed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from jobs_store.runs import Claimed
    from worker.outcome import CallEnd

_W3C: Final = TraceContextTextMapPropagator()
_NO_PARENT: Final = otel_context.Context()
_SYSTEM: Final = {"messaging.system": "hourglass"}


class RunTraces:
    """Makes spans of runs."""

    def __init__(self, tracer: trace.Tracer | None = None) -> None:
        self._tracer = tracer or trace.get_tracer("hourglass.worker")

    def claim(self, started: int, runs: int) -> None:
        """The span of a claim that brought `runs` jobs; `started` in nanoseconds since the Unix epoch."""
        span = self._tracer.start_span(
            "claim",
            context=_NO_PARENT,
            kind=SpanKind.CLIENT,
            start_time=started,
            attributes={
                **_SYSTEM,
                "messaging.operation.name": "claim",
                "messaging.operation.type": "receive",
                "messaging.batch.message_count": runs,
            },
        )
        span.end()

    @contextmanager
    def run(self, claimed: Claimed) -> Iterator[trace.Span]:
        """The span of one run, current in the block."""
        with self._tracer.start_as_current_span(
            f"run {claimed.lane}",
            context=_NO_PARENT,
            kind=SpanKind.CONSUMER,
            attributes=_attributes(claimed),
            links=_made_by(claimed),
        ) as span:
            yield span


def note_end(span: trace.Span, end: CallEnd) -> None:
    """How the attempt's call ended, in the span of its run. What we stopped ourselves is no error."""
    span.set_attribute("hourglass.attempt.end", type(end).__name__.lower())
    if isinstance(end, Failed):
        span.set_attribute("error.type", end.cause)
        span.set_status(Status(StatusCode.ERROR, end.cause))


def _attributes(claimed: Claimed) -> Mapping[str, str | int]:
    return {
        **_SYSTEM,
        "messaging.operation.name": "run",
        "messaging.operation.type": "process",
        "messaging.destination.name": claimed.lane,
        "messaging.message.id": str(claimed.job_id),
        "hourglass.tenant": claimed.tenant,
        "hourglass.job.id": str(claimed.job_id),
        "hourglass.attempt.number": claimed.attempt_number,
    }


def _made_by(claimed: Claimed) -> Sequence[trace.Link]:
    """The span of the request that made the job. Given at the start, because samplers look at links."""
    headers = {"traceparent": claimed.traceparent, "tracestate": claimed.tracestate}
    context = trace.get_current_span(_W3C.extract(headers, context=_NO_PARENT)).get_span_context()
    return (trace.Link(context),) if context.is_valid else ()
