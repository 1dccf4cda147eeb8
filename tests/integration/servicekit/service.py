"""A small service over raw bytes, with every shape of handler, behind the request interceptor.

What a handler does is told by the request's bytes; `acts` maps them to coroutines.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import structlog
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from opentelemetry import metrics
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from hourglass.budget.v1.ledger_pb2 import BudgetLedger
from servicekit.drain import Drain
from servicekit.interceptor import RequestInterceptor
from servicekit.methods import Kind, MethodPolicy
from servicekit.request import Terms
from tests.waiting import eventually

Context = grpc.aio.ServicerContext[bytes, bytes]
Act = Callable[[Context], Awaitable[bytes]]

SERVICE = "test.v1.TestService"
# The name says the arity; the last word how the handler is written.
SHAPES = (
    "unary_unary",
    "unary_stream_generator",
    "unary_stream_writer",
    "stream_unary",
    "stream_stream_generator",
    "stream_stream_writer",
)
STREAMING = tuple(shape for shape in SHAPES if not shape.endswith("unary"))
POLICY = MethodPolicy(default=5.0, cap=10.0)
STREAM_POLICY = MethodPolicy(default=5.0, cap=10.0, kind=Kind.STREAM)


def method(shape: str) -> str:
    return f"/{SERVICE}/{shape}"


class Servicer:
    """Every shape runs the act that its first request names, and answers with what the act returns."""

    def __init__(self, acts: Mapping[bytes, Act]) -> None:
        self.acts = acts
        self.started = asyncio.Event()
        self.closed_in: list[asyncio.Task[Any] | None] = []
        self.served_in: list[asyncio.Task[Any] | None] = []

    async def act(self, request: bytes, context: Context) -> bytes:
        self.served_in.append(asyncio.current_task())
        self.started.set()
        return await self.acts[request](context)

    async def unary_unary(self, request: bytes, context: Context) -> bytes:
        return await self.act(request, context)

    async def unary_stream_generator(self, request: bytes, context: Context) -> AsyncIterator[bytes]:
        try:
            yield b"first"
            yield await self.act(request, context)
        finally:
            self.closed_in.append(asyncio.current_task())

    async def unary_stream_writer(self, request: bytes, context: Context) -> None:
        await context.write(b"first")
        await context.write(await self.act(request, context))

    async def stream_unary(self, requests: AsyncIterator[bytes], context: Context) -> bytes:
        return await self.act(await anext(requests), context)

    async def stream_stream_generator(
        self, requests: AsyncIterator[bytes], context: Context
    ) -> AsyncIterator[bytes]:
        try:
            async for request in requests:
                yield b"first"
                yield await self.act(request, context)
        finally:
            self.closed_in.append(asyncio.current_task())

    async def stream_stream_writer(self, _requests: AsyncIterator[bytes], context: Context) -> None:
        while request := await context.read():  # EOF is false
            await context.write(b"first")
            await context.write(await self.act(request, context))

    def handlers(self) -> grpc.GenericRpcHandler:
        wrap = {
            "unary_u": grpc.unary_unary_rpc_method_handler,
            "unary_s": grpc.unary_stream_rpc_method_handler,
            "stream_u": grpc.stream_unary_rpc_method_handler,
            "stream_s": grpc.stream_stream_rpc_method_handler,
        }
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                shape: make(getattr(self, shape))
                for shape in SHAPES
                for start, make in wrap.items()
                if shape.startswith(start)
            },
        )


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a client saw."""

    code: grpc.StatusCode
    details: str
    messages: list[bytes]
    trailers: Mapping[str, str | bytes]

    @property
    def status(self) -> Status:
        raw = self.trailers["grpc-status-details-bin"]
        assert isinstance(raw, bytes)
        return Status.FromString(raw)

    @property
    def reason(self) -> str:
        """The ErrorInfo's reason; empty when no details came."""
        if "grpc-status-details-bin" not in self.trailers:
            return ""
        info = ErrorInfo()
        assert any(detail.Unpack(info) for detail in self.status.details)
        assert info.domain == "hourglass"
        return info.reason

    @property
    def ledger(self) -> BudgetLedger:
        raw = self.trailers["budget-ledger-bin"]
        assert isinstance(raw, bytes)
        return BudgetLedger.FromString(raw)


@dataclass(kw_only=True)
class Harness:
    """A running server, a channel to it, and everything that it told."""

    channel: grpc.aio.Channel
    server: grpc.aio.Server
    servicer: Servicer
    drain: Drain
    logs: list[Any]
    exporter: InMemorySpanExporter
    calls: list[Any] = field(default_factory=list)

    def start(
        self, shape: str, request: bytes, *, timeout: float | None = 5.0, metadata: Any = ()
    ) -> grpc.aio.Call:
        """Starts a call and lets it run."""
        options: dict[str, Any] = {"timeout": timeout, "metadata": metadata}
        call: Any
        channel: Any = self.channel
        if shape == "unary_unary":
            call = channel.unary_unary(method(shape))(request, **options)
        elif shape.startswith("unary_stream"):
            call = channel.unary_stream(method(shape))(request, **options)
        elif shape == "stream_unary":
            call = channel.stream_unary(method(shape))(iter([request]), **options)
        else:
            call = channel.stream_stream(method(shape))(iter([request]), **options)
        self.calls.append(call)
        result: grpc.aio.Call = call
        return result

    async def finish(self, shape: str, call: Any) -> Answer:
        """Reads a call to its end."""
        messages: list[bytes] = []
        try:
            if shape in STREAMING:
                async for message in call:
                    messages.append(message)  # noqa: PERF401 - what came before an error counts
            else:
                messages.append(await call)
        except (grpc.aio.AioRpcError, asyncio.CancelledError):
            pass
        trailers = {str(key): value for key, value in await call.trailing_metadata() or ()}
        return Answer(
            code=await call.code(), details=await call.details() or "", messages=messages, trailers=trailers
        )

    async def ask(self, shape: str, request: bytes, **options: Any) -> Answer:
        return await self.finish(shape, self.start(shape, request, **options))

    async def line(self) -> Any:
        """The one log line of the one request."""
        await eventually(self.lines)
        (line,) = self.lines()
        return line

    def lines(self) -> list[Any]:
        return [entry for entry in self.logs if entry["event"] == "request"]

    async def span(self) -> ReadableSpan:
        """The one server span."""
        await eventually(self.exporter.get_finished_spans)
        (span,) = self.exporter.get_finished_spans()
        return span


@asynccontextmanager
async def serving(
    acts: Mapping[bytes, Act],
    *,
    policies: Mapping[str, MethodPolicy] | None = None,
    without: Collection[str] = (),
    meter: metrics.Meter | None = None,
    **terms: Any,
) -> AsyncIterator[Harness]:
    """A server on a free port of loopback, and a channel to it."""
    drain = Drain()
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    methods = {
        method(shape): STREAM_POLICY if shape in STREAMING else POLICY
        for shape in SHAPES
        if shape not in without
    }
    methods.update(policies or {})
    interceptor = RequestInterceptor(
        methods, Terms(drain=drain, **terms), tracer=provider.get_tracer("test"), meter=meter
    )
    servicer = Servicer(acts)
    server = grpc.aio.server(interceptors=[interceptor], options=[("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers([servicer.handlers()])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    with structlog.testing.capture_logs() as logs:
        async with grpc.aio.insecure_channel(
            f"127.0.0.1:{port}", options=[("grpc.use_local_subchannel_pool", 1)]
        ) as channel:
            harness = Harness(
                channel=channel, server=server, servicer=servicer, drain=drain, logs=logs, exporter=exporter
            )
            try:
                yield harness
            finally:
                for call in harness.calls:
                    call.cancel()
                await server.stop(0)
                provider.shutdown()
