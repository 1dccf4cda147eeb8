"""The writer of streams of very many messages: what each write of them may take, and how it fails."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import Any

import grpc
import pytest

from budget.timer import Waits
from servicekit.context import Codec, ServedContext, served
from servicekit.endings import CallerGone
from servicekit.errors import Resume
from tests.waiting import eventually

LONG = 60.0
SOON = 0.001

Write = Callable[[Any], Awaitable[None]]


class Reader:
    """The other end, as grpc's context shows it. sent: what left, headers as None."""

    def __init__(self) -> None:
        self.sent: list[bytes | None] = []
        self.reads = asyncio.Event()
        self.reads.set()
        self.broken = False

    async def send_initial_metadata(self, _metadata: object) -> None:
        self.sent.append(None)

    async def write(self, raw: bytes) -> None:
        if self.broken:
            raise grpc.aio.InternalError("Failed execute_batch")
        await self.reads.wait()
        self.sent.append(raw)


@pytest.fixture
async def reader() -> Reader:
    return Reader()


def writer(reader: Any, waits: Waits, limit: float = LONG) -> Write:
    absent: Any = None
    context = ServedContext(reader, call=absent, codec=Codec(), abort=absent)
    return context.writer(bytes, waits, limit=limit, late=Resume)


async def test_headers_leave_once_and_before_the_first_message(reader: Reader) -> None:
    with closing(Waits.here()) as waits:
        write = writer(reader, waits)
        await write(b"first")
        await write(b"second")
    assert [None, b"first", b"second"] == reader.sent


async def test_a_message_that_is_not_taken_in_time_raises_what_was_asked_for(reader: Reader) -> None:
    with closing(Waits.here()) as waits:
        write = writer(reader, waits, limit=SOON)
        reader.reads.clear()
        with pytest.raises(Resume):
            await write(b"too much")
    assert [None] == reader.sent


async def test_a_broken_stream_is_a_caller_that_left(reader: Reader) -> None:
    with closing(Waits.here()) as waits:
        write = writer(reader, waits)
        await write(b"first")
        reader.broken = True
        with pytest.raises(CallerGone):
            await write(b"second")


async def test_a_cancel_gets_through_a_write(reader: Reader) -> None:
    async def stream() -> None:
        with closing(Waits.here()) as waits:
            await writer(reader, waits)(b"never")

    reader.reads.clear()
    streaming = asyncio.create_task(stream())
    await eventually(lambda: reader.sent, within=5.0)
    streaming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await streaming


def test_a_context_without_the_interceptor_is_refused(reader: Any) -> None:
    with pytest.raises(TypeError, match="without the request interceptor"):
        served(reader)
