"""A handler that walks HTTP, gRPC and PostgreSQL under one budget, and dependencies that hang when told to.

It is how handlers of ours are written: the optional call first asks whether there is time for it, each
required call is one spend with a policy of its own, and nothing else in it knows of time.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Self

import grpc.aio

from budget.core import Budget
from budget.grpc_client import CHANNEL_OPTIONS, SERVER_PING_OPTIONS, call
from budget.http import HttpLimits, http_stream
from budget.policy import Policy
from budget.postgres import Database
from budget.spend import skip
from servicekit.call import call_of

Context = grpc.aio.ServicerContext[bytes, bytes]
Multicallable = grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]

# The classic split of 2 s: 700 + 500 + 400 ms, 200 ms in reserve for the answer.
HTTP: Final = Policy(dependency="http", method="read", limit=0.7, floor=0.02)
PRICE: Final = Policy(dependency="pricing", method="GetPrice", limit=0.5, floor=0.02)
STORE: Final = Policy(dependency="postgres", method="store", limit=0.4, floor=0.02)
LOAD: Final = Policy(dependency="worker", method="GetLoad", limit=0.5, floor=0.1, optional=True)
HTTP_LIMITS: Final = HttpLimits(first_byte=5.0, between=5.0)
APPLICATION: Final = "reference-handler"


class HttpServer:
    """Answers every connection with a short body, or not at all."""

    def __init__(self) -> None:
        self.hung = False
        self.requests = 0
        self.open = 0
        self.port = 0

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Self]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        async with server:
            yield self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.requests += 1
        self.open += 1
        try:
            await reader.readuntil(b"\r\n\r\n")
            if self.hung:
                await reader.read()  # until the client has gone
            else:
                writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 4\r\n\r\nread")
        finally:
            self.open -= 1
            writer.close()


class HttpAnswer:
    """The body of one answer, as it comes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def send(cls, port: int, child: Budget) -> Self:
        async with asyncio.timeout(HTTP_LIMITS.connect_timeout(child)):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        return cls(reader, writer)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        await self._reader.readuntil(b"\r\n\r\n")
        while chunk := await self._reader.read(1000):
            yield chunk

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


@dataclass
class GrpcServer:
    """Answers every call at once, or never."""

    hung: bool = False
    takes: float = 0.0
    """Seconds that a price takes."""
    calls: list[str] = field(default_factory=list)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def channel(self) -> AsyncIterator[grpc.aio.Channel]:
        server = grpc.aio.server(options=[("grpc.so_reuseport", 0), *SERVER_PING_OPTIONS])
        handlers: dict[str, Any] = {
            "GetPrice": grpc.unary_unary_rpc_method_handler(self._price),
            "GetLoad": grpc.unary_unary_rpc_method_handler(self._load),
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Reference", handlers),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=CHANNEL_OPTIONS) as channel:
            await channel.channel_ready()
            yield channel
        await server.stop(0)

    async def _price(self, _request: bytes, _context: Context) -> bytes:
        self.calls.append("GetPrice")
        if self.hung:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
        await asyncio.sleep(self.takes)
        return b"priced"

    async def _load(self, _request: bytes, _context: Context) -> bytes:
        self.calls.append("GetLoad")
        return b"idle"


@dataclass(kw_only=True)
class Reference:
    """The handler with its dependencies."""

    http: HttpServer
    pricing: GrpcServer
    channel: grpc.aio.Channel
    database: Database
    statement_takes: float = 0.0
    """Seconds that the handler's statement sleeps on the server."""

    async def walk(self, context: Context) -> bytes:
        budget = call_of(context).budget
        load = b"unknown" if skip(budget, LOAD) else await self._call("GetLoad", budget, LOAD)
        parts = (
            await self._read(budget),
            await self._call("GetPrice", budget, PRICE),
            await self._store(budget),
            load,
        )
        return b" ".join(parts)

    async def _read(self, budget: Budget) -> bytes:
        async with http_stream(
            lambda child: HttpAnswer.send(self.http.port, child),
            close=HttpAnswer.close,
            budget=budget,
            policy=HTTP,
            limits=HTTP_LIMITS,
        ) as chunks:
            return b"".join([chunk async for chunk in chunks])

    async def _call(self, name: str, budget: Budget, policy: Policy) -> bytes:
        method: Multicallable = self.channel.unary_unary(f"/test.Reference/{name}")
        return await call(method, b"", budget=budget, policy=policy)

    async def _store(self, budget: Budget) -> bytes:
        async with self.database.transaction(budget, STORE) as transaction:
            await transaction.execute("SELECT pg_sleep($1)", self.statement_takes)
        return b"stored"


@asynccontextmanager
async def reference(dsn: str) -> AsyncIterator[Reference]:
    """The handler, its dependencies running and connected."""
    http, pricing = HttpServer(), GrpcServer()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(http.serving())
        channel = await stack.enter_async_context(pricing.channel())
        database = await Database.open(dsn, budget=Budget.for_work(10), size=2, application_name=APPLICATION)
        stack.push_async_callback(database.close, Budget.for_work(5))
        yield Reference(http=http, pricing=pricing, channel=channel, database=database)
