"""gRPC calls under a budget, over real sockets."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, cast

import grpc.aio
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from budget.core import Budget
from budget.errors import BudgetExhausted, BudgetTooLow, UpstreamError, UpstreamTimeout
from budget.grpc_client import CHANNEL_OPTIONS, SERVER_PING_OPTIONS, call, stream
from budget.ledger import Outcome
from budget.policy import Policy
from tests.waiting import eventually

PRICING = Policy(dependency="pricing", method="GetPrice", limit=0.3)
WATCH = Policy(dependency="worker", method="StreamProgress", limit=5.0)

Unary = grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]
Streaming = grpc.aio.UnaryStreamMultiCallable[bytes, bytes]
Context = grpc.aio.ServicerContext[bytes, bytes]
Behaviour = Callable[[Context], Awaitable[bytes]]


async def answers(context: Context) -> bytes:
    return b"priced"


async def hangs(context: Context) -> bytes:
    await asyncio.Event().wait()
    return b""


@dataclass
class Callee:
    """A server that does as it is told and notes what it sees."""

    behaviour: Behaviour = answers
    calls: int = 0
    seen_remaining: list[float | None] = field(default_factory=list)
    seen_metadata: dict[str, Any] = field(default_factory=dict)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)

    async def unary(self, request: bytes, context: Context) -> bytes:
        self.note(context)
        try:
            return await self.behaviour(context)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    async def streaming(self, request: bytes, context: Context) -> None:
        self.note(context)
        try:
            for number in range(3):
                await context.write(b"%d" % number)
            await self.behaviour(context)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    def note(self, context: Context) -> None:
        self.calls += 1
        self.seen_remaining.append(context.time_remaining())
        self.seen_metadata = dict(context.invocation_metadata() or ())


@pytest.fixture
async def callee() -> Callee:
    return Callee()


@pytest.fixture
async def channel(callee: Callee) -> AsyncIterator[grpc.aio.Channel]:
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0), *SERVER_PING_OPTIONS])
    handlers: dict[str, Any] = {
        "Unary": grpc.unary_unary_rpc_method_handler(callee.unary),
        "Stream": grpc.unary_stream_rpc_method_handler(callee.streaming),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Callee", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=CHANNEL_OPTIONS) as opened:
        await opened.channel_ready()
        yield opened
    await server.stop(0)


@pytest.fixture
def unary(channel: grpc.aio.Channel) -> "grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]":
    return channel.unary_unary("/test.Callee/Unary")


@pytest.fixture
def streaming(channel: grpc.aio.Channel) -> "grpc.aio.UnaryStreamMultiCallable[bytes, bytes]":
    return channel.unary_stream("/test.Callee/Stream")


def a_request(seconds: float = 2.0) -> Budget:
    return Budget.root(incoming=seconds, default=None, cap=None)


def endings(budget: Budget) -> list[tuple[Outcome, str]]:
    return [(one.outcome, one.reason) for one in budget.ledger.spends]


async def seen_as_cancelled(callee: Callee) -> None:
    """The callee is told within the time that is allowed for stragglers."""
    async with asyncio.timeout(0.2):
        await callee.cancelled.wait()


async def test_an_answer_comes_back_and_metadata_goes_along(unary: Unary, callee: Callee) -> None:
    budget = a_request()
    metadata = [("hourglass-retry-attempt", "1")]
    assert await call(unary, b"", budget=budget, policy=PRICING, metadata=metadata) == b"priced"
    assert callee.seen_metadata["hourglass-retry-attempt"] == "1"
    assert endings(budget) == [(Outcome.OK, "")]


class Wire:
    """A peer that says no more HTTP/2 than it must and reads the `grpc-timeout` of the calls that it gets."""

    SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
    HEADER = re.compile(rb"grpc-timeout.(\d+)([munHMS])", re.DOTALL)
    UNITS: ClassVar = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}

    def __init__(self) -> None:
        self.timeout: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(self.SETTINGS)
        received = b""
        while not (found := self.HEADER.search(received)):
            received += await reader.read(65_536)
        self.timeout.set_result(int(found[1]) * self.UNITS[found[2]])
        writer.close()


@pytest.mark.parametrize("limit", [0.05, 0.3, 0.999, 1.0, 1.5, 2.0, 9.99, 10.0, 60.0, 100.0, 1000.0])
@pytest.mark.parametrize("cut_by", ["budget", "limit"])
async def test_the_timeout_on_the_wire_is_never_more_than_the_caller_has(limit: float, cut_by: str) -> None:
    policy = replace(PRICING, limit=limit if cut_by == "limit" else 2 * limit)
    total = limit if cut_by == "budget" else 2 * limit
    seen = []
    for _ in range(8):
        wire = Wire()
        server = await asyncio.start_server(wire.serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=CHANNEL_OPTIONS) as channel:
            await channel.channel_ready()
            method: Unary = channel.unary_unary("/test.Callee/Unary")
            budget, left = Budget.for_work(total), []

            def noting(request: bytes, **options: Any) -> Any:
                left.append(limit - (total - budget.remaining()))  # noqa: B023 # called in this round
                return method(request, **options)  # noqa: B023

            calling = asyncio.create_task(call(cast("Unary", noting), b"", budget=budget, policy=policy))
            sent = await wire.timeout
            calling.cancel()
            await asyncio.wait({calling})
        server.close()
        await server.wait_closed()
        assert sent <= left[0]
        seen.append(sent)
    assert 0.9 * limit - 0.01 < max(seen)


async def test_a_hanging_callee_uses_up_its_limit_and_is_cancelled(unary: Unary, callee: Callee) -> None:
    callee.behaviour = hangs
    budget = a_request()
    started = time.monotonic()
    with pytest.raises(UpstreamTimeout) as caught:
        await call(unary, b"", budget=budget, policy=PRICING)
    took = time.monotonic() - started
    assert PRICING.limit - 0.0005 <= took < PRICING.limit + 0.1
    assert endings(budget) == [(Outcome.TIMEOUT, "")]
    assert (caught.value.dependency, caught.value.method) == ("pricing", "GetPrice")
    await seen_as_cancelled(callee)


async def test_with_less_budget_than_limit_it_is_the_budget_that_is_exhausted(
    unary: Unary, callee: Callee
) -> None:
    callee.behaviour = hangs
    budget = a_request(0.2)
    with pytest.raises(BudgetExhausted):
        await call(unary, b"", budget=budget, policy=PRICING)
    assert endings(budget) == [(Outcome.EXHAUSTED, "")]
    assert budget.remaining() > 0


async def test_below_the_floor_nothing_is_sent(unary: Unary, callee: Callee) -> None:
    with pytest.raises(BudgetTooLow):
        await call(unary, b"", budget=a_request(0.05), policy=replace(PRICING, floor=0.1))
    assert callee.calls == 0


async def test_a_cancelled_caller_cancels_the_callee(unary: Unary, callee: Callee) -> None:
    callee.behaviour = hangs
    budget = a_request()
    task = asyncio.create_task(call(unary, b"", budget=budget, policy=PRICING))
    await eventually(lambda: callee.calls)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await seen_as_cancelled(callee)
    assert endings(budget) == [(Outcome.CANCELLED, "")]


def rich_status(code: grpc.StatusCode, *details: Any) -> tuple[tuple[str, bytes], ...]:
    packed = []
    for detail in details:
        packed.append(AnyMessage())
        packed[-1].Pack(detail)
    status = Status(code=code.value[0], message="no", details=packed)
    return (("grpc-status-details-bin", status.SerializeToString()),)


def aborts(code: grpc.StatusCode, trailers: Any = ()) -> Behaviour:
    async def behave(context: Context) -> bytes:
        return await context.abort(code, "no", trailing_metadata=trailers)

    return behave


async def failure(unary: Unary) -> UpstreamError:
    with pytest.raises(UpstreamError) as caught:
        await call(unary, b"", budget=a_request(), policy=PRICING)
    return caught.value


async def test_an_error_keeps_its_code_reason_and_pushback(unary: Unary, callee: Callee) -> None:
    info = ErrorInfo(reason="MODEL_NOT_FOUND", domain="hourglass", metadata={"model": "x"})
    retry = RetryInfo(retry_delay=Duration(seconds=1, nanos=500_000_000))
    code = grpc.StatusCode.NOT_FOUND
    callee.behaviour = aborts(code, rich_status(code, info, retry))
    error = await failure(unary)
    assert (error.code, error.upstream_reason, error.pushback) == ("NOT_FOUND", "MODEL_NOT_FOUND", 1.5)
    assert (error.cause, error.reason, error.details) == ("MODEL_NOT_FOUND", "UPSTREAM_ERROR", "no")
    assert error.upstream_metadata == {"model": "x"}


@pytest.mark.parametrize(
    ("value", "pushback"), [("250", 0.25), ("-1", float("inf")), ("soon", float("inf")), ("0", 0.0)]
)
async def test_pushback_is_read_as_grfc_a6_says(
    unary: Unary, callee: Callee, value: str, pushback: float
) -> None:
    callee.behaviour = aborts(grpc.StatusCode.UNAVAILABLE, (("grpc-retry-pushback-ms", value),))
    assert (await failure(unary)).pushback == pushback


@pytest.mark.parametrize(
    "trailers",
    [
        (("grpc-status-details-bin", b"\xff\xff nonsense"),),
        rich_status(grpc.StatusCode.UNAVAILABLE, ErrorInfo(reason="a b; c\n")),
        (),
    ],
)
async def test_details_that_make_no_sense_do_no_harm(unary: Unary, callee: Callee, trailers: Any) -> None:
    callee.behaviour = aborts(grpc.StatusCode.UNAVAILABLE, trailers)
    error = await failure(unary)
    assert (error.code, error.upstream_reason, error.pushback) == ("UNAVAILABLE", "", None)


async def test_a_deadline_that_the_callee_reports_is_a_timeout_at_once(unary: Unary, callee: Callee) -> None:
    code = grpc.StatusCode.DEADLINE_EXCEEDED
    callee.behaviour = aborts(code, rich_status(code, ErrorInfo(reason="BUDGET_EXHAUSTED")))
    budget = a_request()
    with pytest.raises(UpstreamTimeout) as caught:
        await call(unary, b"", budget=budget, policy=PRICING)
    assert budget.ledger.spends[0].took < 0.2
    assert "BUDGET_EXHAUSTED" == caught.value.metadata["upstream_reason"]
    assert "BUDGET_EXHAUSTED" == budget.ledger.spends[0].reason


async def test_what_the_callee_says_of_a_deadline_is_told_when_our_budget_ends_with_it(
    unary: Unary, callee: Callee
) -> None:
    code = grpc.StatusCode.DEADLINE_EXCEEDED
    info = ErrorInfo(reason="UPSTREAM_TIMEOUT", metadata={"dependency": "provider"})
    callee.behaviour = aborts(code, rich_status(code, info))
    budget = a_request(0.5)
    with pytest.raises(BudgetExhausted) as caught:
        await call(unary, b"", budget=budget, policy=replace(PRICING, limit=float("inf")))
    error = caught.value
    assert ("UPSTREAM_TIMEOUT", {"dependency": "provider"}) == (
        error.upstream_reason,
        error.upstream_metadata,
    )
    assert "UPSTREAM_TIMEOUT" == error.metadata["upstream_reason"]
    assert [(Outcome.EXHAUSTED, "UPSTREAM_TIMEOUT")] == endings(budget)


async def test_a_status_cancelled_from_the_callee_is_no_cancel_of_ours(unary: Unary, callee: Callee) -> None:
    callee.behaviour = aborts(grpc.StatusCode.CANCELLED)
    assert (await failure(unary)).code == "CANCELLED"


async def test_an_unreachable_callee_is_unavailable_at_once() -> None:
    budget = a_request()
    async with grpc.aio.insecure_channel("127.0.0.1:1", options=CHANNEL_OPTIONS) as nobody:
        with pytest.raises(UpstreamError) as caught:
            await call(nobody.unary_unary("/test.Callee/Unary"), b"", budget=budget, policy=PRICING)
    assert caught.value.code == "UNAVAILABLE"
    assert endings(budget) == [(Outcome.ERROR, "UNAVAILABLE")]


async def test_a_stream_is_read_to_its_end(streaming: Streaming, callee: Callee) -> None:
    budget = a_request()
    async with stream(streaming, b"", budget=budget, policy=WATCH) as messages:
        assert [message async for message in messages] == [b"0", b"1", b"2"]
    assert endings(budget) == [(Outcome.OK, "")]


async def test_leaving_a_stream_cancels_it(streaming: Streaming, callee: Callee) -> None:
    callee.behaviour = hangs
    budget = a_request()
    async with stream(streaming, b"", budget=budget, policy=WATCH) as messages:
        async for _ in messages:
            break
    await seen_as_cancelled(callee)
    assert endings(budget) == [(Outcome.OK, "")]


async def test_an_error_in_the_block_cancels_the_stream(streaming: Streaming, callee: Callee) -> None:
    callee.behaviour = hangs

    async def fail() -> None:
        async with stream(streaming, b"", budget=a_request(), policy=WATCH) as messages:
            async for _ in messages:
                raise KeyError

    with pytest.raises(KeyError):
        await fail()
    await seen_as_cancelled(callee)


async def test_a_stream_that_falls_silent_is_cut_at_its_total(streaming: Streaming, callee: Callee) -> None:
    callee.behaviour = hangs
    budget = a_request()
    seen = []

    async def read() -> None:
        async with stream(streaming, b"", budget=budget, policy=replace(WATCH, limit=0.2)) as messages:
            seen.extend([message async for message in messages])

    with pytest.raises(UpstreamTimeout):
        await read()
    assert endings(budget) == [(Outcome.TIMEOUT, "")]
    await seen_as_cancelled(callee)


async def test_a_stream_that_fails_ends_in_a_typed_error(streaming: Streaming, callee: Callee) -> None:
    callee.behaviour = aborts(grpc.StatusCode.UNAVAILABLE)
    seen = []

    async def read() -> None:
        async with stream(streaming, b"", budget=a_request(), policy=WATCH) as messages:
            async for message in messages:
                seen.append(message)  # noqa: PERF401

    with pytest.raises(UpstreamError) as caught:
        await read()
    assert (seen, caught.value.code) == ([b"0", b"1", b"2"], "UNAVAILABLE")


async def test_a_stream_without_an_end_sends_no_deadline(streaming: Streaming, callee: Callee) -> None:
    budget = Budget.for_stream(incoming=None)
    async with stream(streaming, b"", budget=budget, policy=replace(WATCH, limit=float("inf"))) as messages:
        assert [message async for message in messages] == [b"0", b"1", b"2"]
    assert callee.seen_remaining == [None]


async def test_keepalive_pings_in_a_silent_stream_are_no_offence(callee: Callee) -> None:
    faster = {"grpc.keepalive_time_ms": 20, "grpc.http2.min_ping_interval_without_data_ms": 10}
    client = [(key, faster.get(key, value)) for key, value in CHANNEL_OPTIONS]
    allowed = [(key, faster.get(key, value)) for key, value in SERVER_PING_OPTIONS]
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0), *allowed])
    handlers: dict[str, Any] = {"Stream": grpc.unary_stream_rpc_method_handler(callee.streaming)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Callee", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    callee.behaviour = hangs
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=client) as channel:
        method: Streaming = channel.unary_stream("/test.Callee/Stream")

        async def read() -> None:
            async with stream(method, b"", budget=a_request(), policy=replace(WATCH, limit=0.6)) as messages:
                async for _ in messages:
                    pass

        with pytest.raises(UpstreamTimeout):
            await read()
    await server.stop(0)
