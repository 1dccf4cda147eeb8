"""What one caller may take of a server: bytes, requests on a connection, connections."""

from typing import Any

import grpc
import pytest

from servicekit.channels import client_options
from servicekit.server import Server
from tests.integration.servicekit.service import method
from tests.integration.servicekit.test_server import hang, running
from tests.waiting import eventually


async def test_metadata_above_the_limit_is_refused_and_below_it_never() -> None:
    async with running(max_metadata_bytes=8192) as (_, servicer, channel):
        servicer.acts = {b"x": answered}
        unary: Any = channel.unary_unary(method("unary_unary"))
        for _ in range(20):  # core's own limits are two, and chance decides between them
            assert b"answered" == await unary(b"x", timeout=5.0, metadata=(("x-long", "a" * 7500),))
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await unary(b"x", timeout=5.0, metadata=(("x-long", "a" * 8200),))

    assert grpc.StatusCode.RESOURCE_EXHAUSTED is refused.value.code()


async def test_so_many_requests_at_once_are_a_limit_of_each_connection() -> None:
    async with running(max_concurrent_streams=1, drain_grace=0.5) as (server, servicer, channel):
        servicer.acts = {b"hang": hang, b"x": answered}
        unary: Any = channel.unary_unary(method("unary_unary"))
        hung = unary(b"hang")
        await servicer.started.wait()
        with pytest.raises(grpc.aio.AioRpcError) as held_back:
            await ask(channel, timeout=0.2)
        async with connection_of_its_own(server) as other:
            assert b"answered" == await ask(other)
        hung.cancel()

    assert grpc.StatusCode.DEADLINE_EXCEEDED is held_back.value.code()


async def test_connections_beyond_the_limit_are_closed_until_others_have_gone() -> None:
    async with running(max_connections=1) as (server, servicer, channel):
        servicer.acts = {b"x": answered}
        assert b"answered" == await ask(channel)
        async with connection_of_its_own(server) as other:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await ask(other)
        await channel.close()

        async def let_in() -> bool:
            async with connection_of_its_own(server) as another:
                try:
                    return await ask(another) == b"answered"
                except grpc.aio.AioRpcError:
                    return False

        await eventually(let_in, within=5.0)

    assert grpc.StatusCode.UNAVAILABLE is refused.value.code()


async def answered(_context: object) -> bytes:
    return b"answered"


async def ask(channel: grpc.aio.Channel, *, timeout: float = 5.0) -> bytes:
    unary: Any = channel.unary_unary(method("unary_unary"))
    answer: bytes = await unary(b"x", timeout=timeout)
    return answer


def connection_of_its_own(server: Server) -> grpc.aio.Channel:
    options = [*client_options(), ("grpc.use_local_subchannel_pool", 1)]
    return grpc.aio.insecure_channel(server.address, options=options)
