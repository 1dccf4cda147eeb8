"""A call is one client span that says how it ended, and never what was said."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.integration.providers.calls import read, request
from worker.providers.errors import ProviderError

if TYPE_CHECKING:
    from worker.providers.openai_compatible import OpenAICompatible


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """Where the spans of the test go."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    return exporter


async def test_a_good_call_is_a_span_with_its_usage(
    provider: OpenAICompatible, spans: InMemorySpanExporter
) -> None:
    await read(provider, request("simulated-fast:tokens=5", prompt="swordfish"))
    (span,) = spans.get_finished_spans()
    assert span.attributes is not None
    assert (span.name, span.status.is_ok) == ("chat simulated-fast:tokens=5", True)
    assert span.attributes["gen_ai.usage.output_tokens"] == 5
    assert span.attributes["gen_ai.response.finish_reasons"] == ("stop",)
    assert "swordfish" not in span.to_json()


async def test_a_failed_call_is_a_span_with_its_cause(
    provider: OpenAICompatible, spans: InMemorySpanExporter
) -> None:
    with pytest.raises(ProviderError):
        await read(provider, request("simulated-reset-mid"))
    (span,) = spans.get_finished_spans()
    assert span.attributes is not None
    assert not span.status.is_ok
    assert span.attributes["error.type"] == "CONNECTION_LOST"
    assert span.attributes["hourglass.sent"] is True
