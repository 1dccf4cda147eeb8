"""A gRPC client of raw HTTP/2 frames, for what no well-behaved client can send or leave undone.

It reads only when it is asked for an answer: whoever does not ask is a frozen client.
"""

import asyncio
import base64
import socket
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import unquote

import h2.config
import h2.connection
import h2.events
import h2.settings
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

Header = tuple[str, str]

READ_SIZE = 65_536


@dataclass(slots=True)
class RawAnswer:
    """What came back on one stream. `reset`: the HTTP/2 error code, when the server reset it."""

    headers: dict[str, str] = field(default_factory=dict)
    trailers: dict[str, str] = field(default_factory=dict)
    data: bytes = b""
    reset: int | None = None
    ended: bool = False

    @property
    def status(self) -> int | None:
        """The gRPC status code, from the trailers or from an answer of trailers only."""
        told = self._told.get("grpc-status")
        return None if told is None else int(told)

    @property
    def message(self) -> str:
        """The gRPC status message."""
        return unquote(self._told.get("grpc-message", ""))

    @property
    def reason(self) -> str:
        """The ErrorInfo's reason; empty when there are no details: core answered then, not we."""
        details = self._told.get("grpc-status-details-bin")
        if details is None:
            return ""
        raw = base64.b64decode(details + "=" * (-len(details) % 4))
        info = ErrorInfo()
        return info.reason if any(one.Unpack(info) for one in Status.FromString(raw).details) else ""

    @property
    def _told(self) -> Mapping[str, str]:
        return self.headers | self.trailers


class RawConnection:
    """One connection. Nothing that is sent through it is checked or put right."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, stream_window: int
    ) -> None:
        self._reader = reader
        self._writer = writer
        config = h2.config.H2Configuration(
            header_encoding="utf-8", validate_outbound_headers=False, normalize_outbound_headers=False
        )
        self._protocol = h2.connection.H2Connection(config)
        codes = h2.settings.SettingCodes
        self._protocol.local_settings = h2.settings.Settings(
            initial_values={codes.INITIAL_WINDOW_SIZE: stream_window, codes.ENABLE_PUSH: 0}
        )
        self._answers: dict[int, RawAnswer] = {}
        self._settled = False
        self.closed = False
        """True once the server has ended the connection."""

    async def begin(self) -> None:
        """Sends the preface and acknowledges the server's settings: its limits hold from then on only."""
        self._protocol.initiate_connection()
        await self._flush()
        while not self._settled and not self.closed:
            await self._read()

    async def request(self, method: str, *metadata: Header, message: bytes = b"x", end: bool = True) -> int:
        """Sends a request with one message and returns its stream; `end`: nothing more will come."""
        stream = self._protocol.get_next_available_stream_id()
        self._answers[stream] = RawAnswer()
        self._protocol.send_headers(stream, [*_head(method), *metadata])
        self._protocol.send_data(stream, struct.pack(">BI", 0, len(message)) + message, end_stream=end)
        await self._flush()
        return stream

    async def reset(self, stream: int) -> None:
        """Sends RST_STREAM (CANCEL), as clients do for a call that they give up."""
        self._protocol.reset_stream(stream, error_code=8)
        await self._flush()

    async def open_window(self, stream: int, size: int) -> None:
        """Lets the server send `size` bytes more on a stream."""
        self._protocol.increment_flow_control_window(size, stream)
        await self._flush()

    async def answer(self, stream: int) -> RawAnswer:
        """Reads until the server has ended the stream or the connection."""
        answer = self._answers[stream]
        while not answer.ended and not self.closed:
            await self._read()
        return answer

    async def first_data(self, stream: int) -> bytes:
        """Reads until something of a body has come."""
        answer = self._answers[stream]
        while not answer.data and not answer.ended and not self.closed:
            await self._read()
        return answer.data

    def abort(self) -> None:
        """Resets the TCP connection, without a word of HTTP/2."""
        opened = self._writer.get_extra_info("socket")
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    def close(self) -> None:
        """Closes the TCP connection in good order, without a word of HTTP/2."""
        self._writer.close()

    async def _flush(self) -> None:
        self._writer.write(self._protocol.data_to_send())
        await self._writer.drain()

    async def _read(self) -> None:
        data = await self._reader.read(READ_SIZE)
        if not data:
            self.closed = True
            return
        for event in self._protocol.receive_data(data):
            self._take(event)
        await self._flush()

    def _take(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.ResponseReceived(stream_id=stream, headers=headers):
                self._answers[stream].headers.update(_texts(headers))
            case h2.events.TrailersReceived(stream_id=stream, headers=headers):
                self._answers[stream].trailers.update(_texts(headers))
            case h2.events.DataReceived(stream_id=stream, data=data, flow_controlled_length=length):
                self._answers[stream].data += data
                self._protocol.acknowledge_received_data(length, stream)
            case h2.events.StreamReset(stream_id=stream, error_code=code):
                self._answers[stream].reset = int(code)
                self._answers[stream].ended = True
            case h2.events.StreamEnded(stream_id=stream):
                self._answers[stream].ended = True
            case h2.events.RemoteSettingsChanged():
                self._settled = True
            case _:
                pass


@asynccontextmanager
async def raw_connection(address: str, *, stream_window: int = 65_535) -> AsyncIterator[RawConnection]:
    """A connection to `host:port`. `stream_window`: bytes that the server may send on a new stream."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    connection = RawConnection(reader, writer, stream_window=stream_window)
    try:
        await connection.begin()
        yield connection
    finally:
        writer.transport.abort()


def _head(method: str) -> list[Header]:
    return [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", method),
        (":authority", "localhost"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
    ]


def _texts(headers: list[tuple[str, str]] | list[tuple[bytes, bytes]]) -> dict[str, str]:
    return {_text(name): _text(value) for name, value in headers}


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode()
