"""A server with certificates, and channels to it that share nothing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc

from servicekit.certificates import Certificates
from servicekit.channels import client_options
from servicekit.request import Terms
from servicekit.server import Server
from servicekit.settings import ServerSettings
from tests.integration.servicekit.service import SERVICE, Servicer, method
from tests.integration.servicekit.test_server import METHODS

UNARY = method("unary_unary")
STREAM = method("unary_stream_writer")


async def shown(context: Any) -> bytes:
    """What the server knows of its caller's certificate."""
    return b",".join(context.peer_identities() or [b"nobody"])


@asynccontextmanager
async def serving(
    certificates: Certificates | None = None, held: asyncio.Event | None = None, **settings: Any
) -> AsyncIterator[Server]:
    """A server; its streams end when `held` is set."""
    server = Server(ServerSettings(**settings), METHODS, Terms(), certificates=certificates)

    async def wait(_context: object) -> bytes:
        await (held or asyncio.Event()).wait()
        return b"at the end"

    server._server.add_generic_rpc_handlers([Servicer({b"who": shown, b"wait": wait}).handlers()])
    server.health.add(SERVICE)
    async with server.serving({}):
        yield server


def port_of(address: str | None) -> str:
    assert address is not None
    return address.rpartition(":")[2]


def secure(address: str | None, credentials: grpc.ChannelCredentials) -> grpc.aio.Channel:
    # Channels of one process share connections otherwise, whatever certificate those began with.
    options = [*client_options(), ("grpc.use_local_subchannel_pool", 1)]
    return grpc.aio.secure_channel(f"localhost:{port_of(address)}", credentials, options=options)


async def ask(channel: grpc.aio.Channel) -> bytes:
    call: Any = channel.unary_unary(UNARY)
    answer: bytes = await call(b"who", timeout=5.0)
    return answer


def begin(channel: grpc.aio.Channel) -> Any:
    """A stream that waits."""
    call: Any = channel.unary_stream(STREAM)
    return call(b"wait", timeout=20.0)
