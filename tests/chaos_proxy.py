"""A TCP proxy that misbehaves when told to: for gRPC, PostgreSQL and HTTP alike.

async with ChaosProxy.to_tcp("127.0.0.1", 50051) as proxy:
    proxy.freeze()      # nothing moves in either direction; connections stay open
    proxy.withhold()    # requests pass, answers do not
    proxy.flow()        # everything moves again
    proxy.sever()       # every open connection is reset
    proxy.black_hole = True   # new connections are accepted and never answered
    proxy.refuse()            # nobody listens any more: new connections are refused
    proxy.delay = 0.05        # seconds before each piece of an answer
    proxy.piece = 1           # answers in pieces of so many bytes: with a delay, a drip
    proxy.when(b"COMMIT", proxy.withhold)   # once, as soon as a request holds these bytes, before it passes
    proxy.guard(b"Bearer new", refusal)     # requests without these bytes get this answer instead
"""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Pieces = Callable[[bytes], Iterator[tuple[float, bytes]]]
"""Makes of what has arrived what goes on: pieces, and the seconds before each."""


class ChaosProxy:
    """Listens on a loopback port of its own; hands every connection on to one target."""

    def __init__(self, connect: Callable[[], Awaitable[Streams]]) -> None:
        self.black_hole = False
        self.delay = 0.0
        self.piece = 65_536
        self.port = 0
        self.accepted = 0
        self._connect = connect
        self._server: asyncio.Server | None = None
        self._requests_flow = asyncio.Event()
        self._answers_flow = asyncio.Event()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._trigger: tuple[bytes, Callable[[], None]] | None = None
        self._guard: tuple[bytes, bytes] | None = None
        self.flow()

    @classmethod
    def to_tcp(cls, host: str, port: int) -> AbstractAsyncContextManager["ChaosProxy"]:
        return running(cls(partial(asyncio.open_connection, host, port)))

    @classmethod
    def to_unix(cls, path: Path) -> AbstractAsyncContextManager["ChaosProxy"]:
        return running(cls(partial(asyncio.open_unix_connection, path)))

    def freeze(self) -> None:
        self._requests_flow.clear()
        self._answers_flow.clear()

    def withhold(self) -> None:
        self._answers_flow.clear()

    def flow(self) -> None:
        self._requests_flow.set()
        self._answers_flow.set()

    def refuse(self) -> None:
        assert self._server is not None
        self._server.close()
        self.sever()

    def sever(self) -> None:
        for writer in tuple(self._writers):
            reset(writer)

    def when(self, marker: bytes, action: Callable[[], None]) -> None:
        self._trigger = marker, action

    def guard(self, password: bytes, refusal: bytes) -> None:
        self._guard = password, refusal

    @property
    def armed(self) -> bool:
        return self._trigger is not None

    @property
    def open(self) -> int:
        return len(self._writers)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            with suppress(asyncio.CancelledError, OSError):  # `stop` ends us; nobody listens at the target
                await self._treat(reader, writer)
        finally:
            self._tasks.discard(task)
            self._writers.discard(writer)
            writer.close()

    async def stop(self) -> None:
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def treatment(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> tuple[Pieces, Pieces]:
        """How the two directions of a new connection are passed on: requests, answers."""
        return self._whole, self._pieces

    async def _treat(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.black_hole:
            await asyncio.Event().wait()
        if self._guard is None:
            await self._relay(reader, writer)
            return
        password, refusal = self._guard
        request = await reader.read(65_536)
        if password in request:
            await self._relay(reader, writer, request)
        else:
            writer.write(refusal)
            await writer.drain()

    async def _relay(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, read: bytes = b""
    ) -> None:
        target_reader, target_writer = await self._connect()
        target_writer.write(read)
        self._writers.add(target_writer)
        requests, answers = self.treatment(writer, target_writer)
        pumps = [
            asyncio.ensure_future(self._pump(reader, target_writer, self._requests_flow, requests)),
            asyncio.ensure_future(self._pump(target_reader, writer, self._answers_flow, answers)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # First of all: `stop` may cancel what is awaited below.
            self._writers.discard(target_writer)
            target_writer.close()
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        flowing: asyncio.Event,
        pieces: Pieces,
    ) -> None:
        with suppress(OSError):
            while data := await source.read(65_536):
                for delay, piece in pieces(data):
                    await flowing.wait()
                    await asyncio.sleep(delay)
                    sink.write(piece)
                    await sink.drain()

    def _whole(self, data: bytes) -> Iterator[tuple[float, bytes]]:
        if self._trigger is not None and self._trigger[0] in data:
            (_, action), self._trigger = self._trigger, None
            action()
        yield 0.0, data

    def _pieces(self, data: bytes) -> Iterator[tuple[float, bytes]]:
        while data:
            size = self.piece
            yield self.delay, data[:size]
            data = data[size:]


Proxy = TypeVar("Proxy", bound=ChaosProxy)


@asynccontextmanager
async def running(proxy: Proxy) -> AsyncIterator[Proxy]:
    """A proxy that listens until the end of the block."""
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy._server = server
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.stop()
        await server.wait_closed()


def reset(writer: asyncio.StreamWriter) -> None:
    """End a connection with RST, or what a unix socket has of it."""
    connection = writer.get_extra_info("socket")
    if connection is not None and connection.family != socket.AF_UNIX:
        with suppress(OSError):  # it is closed already
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
