"""The span of a call is the parent of what the callee makes of it, whether it is recorded or not."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext, SpanKind, StatusCode, TraceFlags

from budget import spans
from budget.core import Budget
from budget.grpc_client import CHANNEL_OPTIONS, call, stream
from budget.policy import Policy

POLICY = Policy(dependency="callee", method="Echo", limit=5.0)


class Callee:
    """Tells what it was sent; a request `wait` is never answered."""

    def __init__(self) -> None:
        self.metadata: list[dict[str, str | bytes]] = []
        self.reached = asyncio.Event()

    async def answer(self, request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        self.metadata.append(dict(context.invocation_metadata() or ()))
        self.reached.set()
        if request == b"wait":
            await asyncio.Event().wait()
        return request

    async def stream(self, request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        await context.write(await self.answer(request, context))


@asynccontextmanager
async def called() -> AsyncIterator[tuple[Callee, grpc.aio.Channel]]:
    callee, server = Callee(), grpc.aio.server()
    methods: Any = {
        "Echo": grpc.unary_unary_rpc_method_handler(callee.answer),
        "Stream": grpc.unary_stream_rpc_method_handler(callee.stream),
    }
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("test.Callee", methods)])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"localhost:{port}", options=CHANNEL_OPTIONS) as channel:
            yield callee, channel
    finally:
        await server.stop(0)


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """What the adapters record, below `recorded`."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(spans, "_tracer", provider.get_tracer("test"))
    return exporter


def recorded() -> Any:
    return TracerProvider(shutdown_on_exit=False).get_tracer("test").start_as_current_span("request")


async def test_the_callees_parent_is_the_span_of_the_call(ended: InMemorySpanExporter) -> None:
    async with called() as (callee, channel):
        with recorded() as request:
            budget = Budget.for_work(5)
            await call(channel.unary_unary("/test.Callee/Echo"), b"x", budget=budget, policy=POLICY)
            method: Any = channel.unary_stream("/test.Callee/Stream")
            async with stream(method, b"y", budget=budget, policy=POLICY) as messages:
                assert [b"y"] == [message async for message in messages]
    for span, metadata in zip(ended.get_finished_spans(), callee.metadata, strict=True):
        own, above = span.context, request.get_span_context()
        assert own is not None
        assert span.parent is not None
        assert (above.trace_id, above.span_id) == (own.trace_id, span.parent.span_id)
        flags = f"{own.trace_flags:02x}"
        assert f"00-{own.trace_id:032x}-{own.span_id:016x}-{flags}" == metadata["traceparent"]
        attributes = span.attributes or {}
        assert ("OK", "localhost", SpanKind.CLIENT) == (
            attributes["rpc.response.status_code"],
            attributes["server.address"],
            span.kind,
        )


async def test_what_is_not_recorded_hands_on_the_callers_context(ended: InMemorySpanExporter) -> None:
    callers = SpanContext(trace_id=7, span_id=8, is_remote=True, trace_flags=TraceFlags(0))
    async with called() as (callee, channel):
        with trace.use_span(trace.NonRecordingSpan(callers)):
            await call(
                channel.unary_unary("/test.Callee/Echo"), b"x", budget=Budget.for_work(5), policy=POLICY
            )
    assert f"00-{7:032x}-{8:016x}-00" == callee.metadata[0]["traceparent"]
    assert () == ended.get_finished_spans()


async def test_a_call_of_no_trace_carries_none() -> None:
    async with called() as (callee, channel):
        await call(channel.unary_unary("/test.Callee/Echo"), b"x", budget=Budget.for_work(5), policy=POLICY)
    assert "traceparent" not in callee.metadata[0]


async def test_a_call_that_is_cancelled_ends_its_span(ended: InMemorySpanExporter) -> None:
    async with called() as (callee, channel):
        method: Any = channel.unary_unary("/test.Callee/Echo")
        with recorded():
            calling = asyncio.ensure_future(call(method, b"wait", budget=Budget.for_work(5), policy=POLICY))
            await callee.reached.wait()
            calling.cancel()
            await asyncio.wait({calling})
    (span,) = ended.get_finished_spans()
    attributes = span.attributes or {}
    assert ("CANCELLED", True) == (attributes["rpc.response.status_code"], attributes["hourglass.cancelled"])
    assert StatusCode.UNSET is span.status.status_code
