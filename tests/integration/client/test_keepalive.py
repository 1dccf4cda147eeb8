"""Keepalive over a socket, 25 times as quick: what is silent stays connected, with or without a call.

C core sends no two pings within a second, whatever it is told, so it cannot be much quicker.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from budget.grpc_client import CHANNEL_OPTIONS, SERVER_PING_OPTIONS
from tests.chaos_proxy import ChaosProxy

FASTER = 25
SILENCE = 8.0  # the time of six pings; the fourth that is too early is answered with a GOAWAY
Options = list[tuple[str, Any]]


def scaled(options: Any) -> Options:
    """The settings, with every interval of pings so many times shorter."""
    return [(key, value // FASTER if _is_an_interval(key) else value) for key, value in options]


def _is_an_interval(key: str) -> bool:
    return key in {"grpc.keepalive_time_ms", "grpc.http2.min_ping_interval_without_data_ms"}


CLIENT = scaled(CHANNEL_OPTIONS)
SERVER = scaled(SERVER_PING_OPTIONS)


@asynccontextmanager
async def connection(server_options: Options) -> AsyncIterator[tuple[grpc.aio.Channel, ChaosProxy]]:
    """A channel with our settings to a server with the given ones, by way of a proxy that counts."""

    async def silent(_request: bytes, context: Any) -> None:
        await context.write(b"here")
        await asyncio.Event().wait()

    async def echo(request: bytes, _context: Any) -> bytes:
        return request

    handlers: dict[str, Any] = {
        "Silent": grpc.unary_stream_rpc_method_handler(silent),
        "Echo": grpc.unary_unary_rpc_method_handler(echo),
    }
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0), *server_options])
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Service", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with (
            ChaosProxy.to_tcp("127.0.0.1", port) as proxy,
            grpc.aio.insecure_channel(f"127.0.0.1:{proxy.port}", options=CLIENT) as channel,
        ):
            yield channel, proxy
    finally:
        await server.stop(0)


async def silence_of(channel: grpc.aio.Channel, seconds: float) -> str:
    """What ends a stream on which nothing is said; empty when it is still there after so many seconds."""
    method: Any = channel.unary_stream("/test.Service/Silent")
    call = method(b"")
    assert b"here" == await call.read()
    try:
        async with asyncio.timeout(seconds):
            await call.read()
    except TimeoutError:
        return ""
    except grpc.aio.AioRpcError as error:
        return f"{error.code().name}: {error.details()}"
    return "it ended"


async def silence_without_a_call(channel: grpc.aio.Channel, seconds: float) -> bool:
    """Whether a connection answers after so many seconds without a call."""
    echo: Any = channel.unary_unary("/test.Service/Echo")
    await echo(b"before")
    await asyncio.sleep(seconds)
    return bool(b"after" == await echo(b"after"))


async def stream_with(server_options: Options) -> tuple[str, int]:
    """What ends a silent stream, and how many connections there were."""
    async with connection(server_options) as (channel, proxy):
        return await silence_of(channel, SILENCE), proxy.accepted


async def connections_with(server_options: Options) -> int:
    """How many connections a channel without a call had."""
    async with connection(server_options) as (channel, proxy):
        assert await silence_without_a_call(channel, SILENCE)
        return proxy.accepted


@pytest.mark.faults
async def test_silence_never_earns_too_many_pings_with_our_settings_and_does_with_others() -> None:
    """The others show that the pings are sent: they are too many for C core's own minimum, and for one that
    is above their interval."""
    stricter = [(key, 2 * 30_000 // FASTER if _is_an_interval(key) else value) for key, value in SERVER]
    ours, idle, c_cores_own, strict = await asyncio.gather(
        stream_with(SERVER), connections_with(SERVER), stream_with([]), stream_with(stricter)
    )
    assert (("", 1), 1) == (ours, idle)
    for ending, _ in (c_cores_own, strict):
        assert "UNAVAILABLE: " in ending
        assert "too_many_pings" in ending.lower().replace(" ", "_")
