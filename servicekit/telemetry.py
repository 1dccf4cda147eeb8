"""OpenTelemetry of a process: the SDK wired, the OTEL_* variables respected, no exporter unless asked for.

The SDK reads its own variables (OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER, OTEL_BSP_*, OTEL_EXPORTER_*);
what it would only warn of (a sampler that it does not know) is an error of the settings here.
Here only the choice of exporters is made: none by default, `otlp` when OTEL_TRACES_EXPORTER or
OTEL_METRICS_EXPORTER says so or an OTLP endpoint is set. (The specification's default is otlp, which would
make every process without a collector report failures.)
"""

import asyncio
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import structlog
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider, sampling
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from pydantic import Field, field_validator
from pydantic_settings import SettingsConfigDict

from budget.core import Budget
from servicekit.listen import CannotListen
from servicekit.sampling import linked
from servicekit.scraping import Scraping
from servicekit.settings import Settings

Exporter = Literal["otlp", "none"]
ContentCapture = Literal["NO_CONTENT", "SPAN_ONLY"]
TraceSampler = Literal[
    "always_on",
    "always_off",
    "traceidratio",
    "parentbased_always_on",
    "parentbased_always_off",
    "parentbased_traceidratio",
]


class TelemetrySettings(Settings):
    """The standard variables that choose exporters, and those that the SDK itself would only warn of.

    sdk_disabled: no spans and no metrics at all, not even ids. service_name: instead of the process's own.
    traces_exporter, metrics_exporter: `otlp` or `none`; unset, an endpoint decides.
    exporter_otlp_endpoint: where spans and metrics go. exporter_otlp_traces_endpoint: spans instead.
        exporter_otlp_metrics_endpoint: metrics instead.
    exporter_otlp_protocol: gRPC is the only one that is spoken here.
    traces_sampler: which requests without a parent are recorded; the `parentbased_` ones obey the caller's
        decision, and a job's attempts that of the request that made the job. traces_sampler_arg: the share,
        where the sampler is a ratio.
    instrumentation_genai_capture_message_content: `SPAN_ONLY` (or `true`) writes prompts and answers into the
        spans of provider calls. Off by default: they are the tenants' own.
    """

    model_config = SettingsConfigDict(env_prefix="OTEL_", env_ignore_empty=True)

    sdk_disabled: bool = False
    service_name: str | None = None
    traces_exporter: Exporter | None = None
    metrics_exporter: Exporter | None = None
    exporter_otlp_endpoint: str | None = None
    exporter_otlp_traces_endpoint: str | None = None
    exporter_otlp_metrics_endpoint: str | None = None
    exporter_otlp_protocol: Literal["grpc"] = "grpc"
    traces_sampler: TraceSampler = "parentbased_always_on"
    traces_sampler_arg: Annotated[float, Field(ge=0, le=1)] = 1.0
    instrumentation_genai_capture_message_content: ContentCapture = "NO_CONTENT"

    @field_validator("instrumentation_genai_capture_message_content", mode="before")
    @classmethod
    def _as_written_before(cls, value: object) -> object:
        """The convention's first form of it was a boolean."""
        return {"true": "SPAN_ONLY", "false": "NO_CONTENT"}.get(str(value).lower(), str(value).upper())

    @field_validator("traces_sampler", mode="before")
    @classmethod
    def _in_small_letters(cls, value: object) -> object:
        return str(value).lower()

    @property
    def exports_traces(self) -> bool:
        """Whether spans leave the process."""
        return _wanted(
            self.traces_exporter, self.exporter_otlp_traces_endpoint or self.exporter_otlp_endpoint
        )

    @property
    def exports_metrics(self) -> bool:
        """Whether metrics leave the process."""
        return _wanted(
            self.metrics_exporter, self.exporter_otlp_metrics_endpoint or self.exporter_otlp_endpoint
        )

    @property
    def captures_content(self) -> bool:
        """Whether spans of provider calls show what was said."""
        return self.instrumentation_genai_capture_message_content == "SPAN_ONLY"


def _wanted(exporter: Exporter | None, endpoint: str | None) -> bool:
    return bool(endpoint) if exporter is None else exporter == "otlp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """The providers of a process. `stop` sends out what is left."""

    traces: TracerProvider | None
    metrics: MeterProvider | None
    scraping: Scraping | None = None

    async def stop(self, budget: Budget) -> bool:
        """Flushes and shuts down. False when the budget ended first, as with a collector that is away."""
        providers = (self.traces, self.metrics)
        stops: list[Callable[[], Any]] = [one.shutdown for one in providers if one is not None]
        if self.scraping is not None:
            stops.append(self.scraping.stop)
        done = [_in_thread(stop) for stop in stops]
        if not done or budget.spendable() <= 0:
            return not done
        _, late = await asyncio.wait(done, timeout=budget.spendable())
        if late:
            structlog.stdlib.get_logger("hourglass.telemetry").warning(
                "telemetry was not sent in time", after=budget.initial
            )
        return not late


def start_telemetry(
    service: str,
    version: str,
    settings: TelemetrySettings,
    *,
    metrics_listen: str | None = None,
    span_processors: tuple[SpanProcessor, ...] = (),
    metric_readers: tuple[MetricReader, ...] = (),
) -> Telemetry:
    """Makes the providers and installs them as OpenTelemetry's global ones, once a process.

    metrics_listen: where Prometheus scrapes; None for nowhere.
    ImportError when an exporter is asked for that is not installed, CannotListen when `metrics_listen` is
    taken, or when the SDK is disabled and there would be nothing.
    """
    if settings.sdk_disabled:
        if metrics_listen is not None:
            raise CannotListen(metrics_listen, "OTEL_SDK_DISABLED leaves no metrics to be scraped")
        return Telemetry(traces=None, metrics=None)
    resource = _resource(settings.service_name or service, version)
    processors = (*span_processors, *_otlp_processors(settings))
    # What nobody exports is not recorded; ids are made all the same, for the logs and for those we call.
    traces = TracerProvider(
        resource=resource, shutdown_on_exit=False, sampler=None if processors else sampling.ALWAYS_OFF
    )
    traces.sampler = linked(traces.sampler)
    for processor in processors:
        traces.add_span_processor(processor)
    scraping = _scraping(metrics_listen)
    readers = (*metric_readers, *_otlp_readers(settings), *([scraping.reader] if scraping else []))
    trace.set_tracer_provider(traces)
    # Without a reader the SDK would still measure, a fifth of what telemetry costs, for nobody.
    meters = None
    if readers:
        meters = MeterProvider(resource=resource, metric_readers=readers, shutdown_on_exit=False)
        metrics.set_meter_provider(meters)
    return Telemetry(traces=traces, metrics=meters, scraping=scraping)


def _scraping(listen: str | None) -> Scraping | None:
    if listen is None:
        return None
    scraping = Scraping(listen)
    structlog.stdlib.get_logger("hourglass.telemetry").info("serving metrics", address=scraping.address)
    return scraping


def _resource(service: str, version: str) -> Resource:
    return Resource.create(
        {SERVICE_NAME: service, SERVICE_VERSION: version, SERVICE_INSTANCE_ID: str(uuid.uuid4())}
    )


# The exporter is an extra of the distribution (hourglass[otlp]), so it is imported when it is asked for.
def _otlp_processors(settings: TelemetrySettings) -> list[SpanProcessor]:
    if not settings.exports_traces:
        return []
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter  # noqa: PLC0415

    return [BatchSpanProcessor(OTLPSpanExporter())]


def _otlp_readers(settings: TelemetrySettings) -> list[MetricReader]:
    if not settings.exports_metrics:
        return []
    from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter  # noqa: PLC0415

    return [PeriodicExportingMetricReader(OTLPMetricExporter())]


def _in_thread(action: Callable[[], Any]) -> asyncio.Future[None]:
    """Runs a blocking action in a daemon thread: unlike the loop's executor it never holds up the exit."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()

    def finish() -> None:
        if not done.done():
            done.set_result(None)

    def run() -> None:
        try:
            action()
        finally:
            # The loop may be gone: the budget had ended and nobody waits any more.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(finish)

    threading.Thread(target=run, name="telemetry shutdown", daemon=True).start()
    return done
