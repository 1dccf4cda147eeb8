"""A call is one client span that says how it ended, and never what was said."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, cast

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from budget.core import Budget
from tests.integration.providers.calls import Heard, read, request
from tests.waiting import eventually
from worker.providers.errors import ProviderError
from worker.providers.openai_compatible import OpenAICompatible

if TYPE_CHECKING:
    from worker.providers.routes import ProviderRoute


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
    assert {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider.name,
        "gen_ai.request.model": "simulated-fast:tokens=5",
        "gen_ai.request.stream": True,
        "gen_ai.output.type": "text",
        "server.address": "127.0.0.1",
    }.items() <= dict(span.attributes).items()
    assert span.attributes["gen_ai.response.model"]
    assert 0 < cast("float", span.attributes["gen_ai.response.time_to_first_chunk"]) < 5


async def test_what_is_said_is_recorded_where_it_is_asked_for(
    route: ProviderRoute, spans: InMemorySpanExporter
) -> None:
    provider = OpenAICompatible(route, capture_content=True)
    heard = await read(provider, request("simulated-fast:tokens=5", prompt="swordfish"))
    await provider.close(budget=Budget.for_work(5.0))
    (span,) = spans.get_finished_spans()
    assert span.attributes is not None
    said = [json.loads(str(span.attributes[f"gen_ai.{way}.messages"])) for way in ("input", "output")]
    assert [
        [{"role": "user", "parts": [{"type": "text", "content": "swordfish"}]}],
        [
            {
                "role": "assistant",
                "parts": [{"type": "text", "content": heard.text}],
                "finish_reason": "stop",
            }
        ],
    ] == said


async def test_a_call_that_we_close_is_no_error_of_the_provider(
    provider: OpenAICompatible, spans: InMemorySpanExporter
) -> None:
    heard = Heard()
    reading = asyncio.ensure_future(read(provider, request("simulated-fast:stall_after=3"), heard=heard))
    await eventually(lambda: heard.deltas > 0, within=5.0)
    reading.cancel()
    await asyncio.wait({reading})
    (span,) = spans.get_finished_spans()
    assert span.attributes is not None
    assert span.status.status_code is StatusCode.UNSET
    assert span.attributes["hourglass.cancelled"] is True


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
