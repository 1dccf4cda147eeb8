"""A run's span is a root of its own and links to the request that made the job."""

from __future__ import annotations

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.unit.worker.claimed import claimed
from worker.tracing import RunTraces

TRACE = "0af7651916cd43dd8448eb211c80319c"
MADE_BY = f"00-{TRACE}-b7ad6b7169203331-01"


def _traces() -> tuple[RunTraces, InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return RunTraces(provider.get_tracer("test")), exporter


def test_a_run_links_to_the_request_that_made_its_job() -> None:
    traces, exporter = _traces()
    with traces.run(claimed(traceparent=MADE_BY)):
        pass
    (span,) = exporter.get_finished_spans()
    assert None is span.parent
    assert [int(TRACE, 16)] == [link.context.trace_id for link in span.links]
    assert span.context is not None
    assert int(TRACE, 16) != span.context.trace_id


def test_a_job_without_a_trace_has_no_link() -> None:
    traces, exporter = _traces()
    with traces.run(claimed(traceparent="")):
        pass
    (span,) = exporter.get_finished_spans()
    assert () == tuple(span.links)
