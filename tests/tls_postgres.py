"""TLS in front of a PostgreSQL that was built without: to a client it is one that has `ssl = on`."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

SSL_REQUEST = bytes.fromhex("0000000804d2162f")
"""The first bytes of a client that wants TLS (PostgreSQL's protocol, 55.2.11)."""
PIECE = 65_536


@asynccontextmanager
async def tls_in_front_of(dsn: str, context: ssl.SSLContext) -> AsyncIterator["TlsFront"]:
    """Listens on loopback; hands what it decrypts to the unix socket that the DSN names."""
    query = parse_qs(urlsplit(dsn).query)
    front = TlsFront(Path(query["host"][0]) / f".s.PGSQL.{query['port'][0]}", dsn, context)
    server = await asyncio.start_server(front.serve, "127.0.0.1", 0)
    front.port = server.sockets[0].getsockname()[1]
    async with server:
        yield front


class TlsFront:
    """Counts whom it let in."""

    def __init__(self, socket: Path, dsn: str, context: ssl.SSLContext) -> None:
        self.port = 0
        self.over_tls = 0
        self.in_the_clear = 0
        self._socket = socket
        self._dsn = urlsplit(dsn)
        self._context = context

    def dsn(self, host: str = "localhost", **options: object) -> str:
        """The same database, by this way."""
        user = self._dsn.username
        return f"postgresql://{user}@{host}:{self.port}{self._dsn.path}?{urlencode(options)}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, to its end."""
        with suppress(OSError, asyncio.IncompleteReadError):
            if await reader.readexactly(len(SSL_REQUEST)) == SSL_REQUEST:
                writer.write(b"S")
                await writer.start_tls(self._context)
                self.over_tls += 1
                await self._relay(reader, writer)
            else:
                self.in_the_clear += 1
        writer.close()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_unix_connection(self._socket)
        await asyncio.gather(_copy(reader, to_server), _copy(from_server, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(PIECE):
            writer.write(piece)
            await writer.drain()
    writer.close()
