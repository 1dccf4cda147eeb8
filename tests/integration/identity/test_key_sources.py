"""A key set over HTTP: whole, bounded, under a budget, and from nobody else than whom the URL names."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from budget.core import Budget
from budget.errors import BudgetError
from servicekit.identity.key_sources import LARGEST, KeysUnreadable, reader_of
from tests.tokens import key_set
from tests.waiting import eventually

Answer = Callable[[asyncio.StreamWriter], None]


class Issuer:
    """An HTTP server that answers as told, byte by byte."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.closed = 0
        self.answer: Answer | None = None
        """None: it never answers."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked.append((await reader.readuntil(b"\r\n\r\n")).decode())
        if self.answer is not None:
            self.answer(writer)
        await reader.read()  # until the other side leaves
        self.closed += 1
        writer.close()


def answer_of(body: bytes, status: str = "200 OK", *, headers: str = "") -> Answer:
    head = f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n{headers}\r\n"
    return lambda writer: writer.write(head.encode() + body)


@asynccontextmanager
async def issuing() -> AsyncIterator[tuple[Issuer, str]]:
    issuer = Issuer()
    async with await asyncio.start_server(issuer.serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        yield issuer, f"http://127.0.0.1:{port}/keys"
        await eventually(lambda: issuer.closed == len(issuer.asked), within=2.0)


async def test_the_keys_are_what_the_url_answers() -> None:
    async with issuing() as (issuer, url):
        issuer.answer = answer_of(key_set("one").encode())
        assert key_set("one") == await reader_of(url)(Budget.for_work(5.0))
        assert issuer.asked[0].startswith("GET /keys HTTP/1.1")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (answer_of(b"", "503 Service Unavailable"), "status is 503"),
        (answer_of(b"", "302 Found", headers="location: http://127.0.0.1:1/\r\n"), "status is 302"),
        (answer_of(b" " * (LARGEST + 1)), "larger than"),
        (answer_of(b"\xff\xfe"), "no UTF-8"),
        (lambda writer: writer.write(b"SSH-2.0-OpenSSH\r\n\r\n"), "RemoteProtocolError"),
    ],
)
async def test_what_is_no_good_answer_is_no_key_set(answer: Answer, why: str) -> None:
    async with issuing() as (issuer, url):
        issuer.answer = answer
        with pytest.raises(KeysUnreadable, match=why):
            await reader_of(url)(Budget.for_work(5.0))


async def test_an_issuer_that_hangs_or_drips_ends_with_the_budget_and_the_connection_is_closed() -> None:
    async with issuing() as (issuer, url):
        for answer in (None, lambda writer: writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{")):
            issuer.answer = answer
            began = asyncio.get_running_loop().time()
            with pytest.raises(BudgetError):
                await reader_of(url)(Budget.for_work(0.3))
            assert asyncio.get_running_loop().time() - began < 1.0
        await eventually(lambda: issuer.closed == 2, within=2.0)


async def test_nobody_there_is_told_as_that() -> None:
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    with pytest.raises(KeysUnreadable, match="ConnectError"):
        await reader_of(f"http://127.0.0.1:{port}/")(Budget.for_work(2.0))


@pytest.mark.parametrize(
    "url", ["http://issuer.test/keys", "https://", "https://ann:secret@issuer.test/keys"]
)
def test_a_url_that_cannot_be_trusted_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="wanted"):
        reader_of(url)
