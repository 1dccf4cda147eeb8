"""Telemetry leaves the process when the OTEL_* variables ask for it, and never holds up its end."""

import threading
import time

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from budget.core import Budget
from servicekit.listen import CannotListen
from servicekit.settings import SettingsError
from servicekit.telemetry import Telemetry, TelemetrySettings, start_telemetry


def settings(monkeypatch: pytest.MonkeyPatch, **variables: str) -> TelemetrySettings:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return TelemetrySettings.load()


def test_nothing_is_exported_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = settings(monkeypatch)

    assert (False, False) == (chosen.exports_traces, chosen.exports_metrics)


@pytest.mark.parametrize(
    ("variables", "traces", "metrics"),
    [
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317"}, True, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4317"}, True, False),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317", "OTEL_METRICS_EXPORTER": "none"}, True, False),
    ],
)
def test_the_standard_variables_choose_what_is_exported(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], traces: bool, metrics: bool
) -> None:
    chosen = settings(monkeypatch, **variables)

    assert (traces, metrics) == (chosen.exports_traces, chosen.exports_metrics)


def test_an_exporter_that_is_not_known_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match="OTEL_TRACES_EXPORTER: Input should be 'otlp' or 'none'"):
        settings(monkeypatch, OTEL_TRACES_EXPORTER="zipkin")


async def test_a_disabled_sdk_makes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    telemetry = start_telemetry("t", "1", settings(monkeypatch, OTEL_SDK_DISABLED="true"))

    assert (None, None) == (telemetry.traces, telemetry.metrics)
    assert await telemetry.stop(Budget.for_work(1.0))


def test_a_disabled_sdk_and_an_address_of_metrics_contradict_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(CannotListen, match="OTEL_SDK_DISABLED"):
        start_telemetry(
            "t", "1", settings(monkeypatch, OTEL_SDK_DISABLED="true"), metrics_listen="127.0.0.1:0"
        )


class Stuck(SpanExporter):
    """A collector that never answers."""

    def __init__(self) -> None:
        self.released = threading.Event()

    def shutdown(self) -> None:
        self.released.wait(30)


async def test_a_collector_that_is_away_costs_no_more_than_the_budget() -> None:
    exporter = Stuck()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    telemetry = Telemetry(traces=provider, metrics=None)

    started = time.monotonic()
    sent = await telemetry.stop(Budget.for_work(0.05))
    exporter.released.set()

    assert not sent
    assert time.monotonic() - started < 5.0


async def test_what_is_left_is_sent_at_the_end() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    provider.get_tracer("t").start_span("last").end()

    assert await Telemetry(traces=provider, metrics=None).stop(Budget.for_work(5.0))
    assert ["last"] == [span.name for span in exporter.get_finished_spans()]
