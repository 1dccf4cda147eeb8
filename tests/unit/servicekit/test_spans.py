"""A process that exports nothing records nothing, and breaks no trace that passes through it."""

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider, sampling
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from servicekit.spans import server_span, trace_context
from servicekit.telemetry import TelemetrySettings, start_telemetry

CALLERS = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
METHOD = "hourglass.jobs.v1.JobService/GetJob"


def unrecorded() -> trace.Tracer:
    return TracerProvider(sampler=sampling.ALWAYS_OFF, shutdown_on_exit=False).get_tracer("test")


def test_the_callers_trace_goes_on_to_those_who_are_called() -> None:
    with server_span(unrecorded(), METHOD, {"traceparent": CALLERS}, "ipv4:127.0.0.1:4000"):
        assert CALLERS == trace_context()["traceparent"]


def test_a_request_without_a_trace_gets_an_id_for_its_log_lines() -> None:
    with server_span(unrecorded(), METHOD, {}, "ipv4:127.0.0.1:4000") as span:
        assert span.get_span_context().is_valid
        assert not span.is_recording()
        assert not span.get_span_context().trace_flags.sampled


@pytest.mark.parametrize("exported", [False, True])
async def test_only_what_somebody_exports_is_recorded(
    monkeypatch: pytest.MonkeyPatch, *, exported: bool
) -> None:
    monkeypatch.setattr(trace, "set_tracer_provider", lambda _provider: None)
    processors = (SimpleSpanProcessor(InMemorySpanExporter()),) if exported else ()
    telemetry = start_telemetry("t", "1", TelemetrySettings.load(), span_processors=processors)
    assert telemetry.traces is not None

    span = telemetry.traces.get_tracer("t").start_span("s")

    assert exported == span.is_recording()
    assert span.get_span_context().is_valid
