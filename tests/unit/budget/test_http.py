import asyncio
import socket
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import TypeVar

import pytest

from budget.core import Budget
from budget.errors import BudgetExhausted, BudgetTooLow, FirstByteTimeout, StallTimeout, UpstreamTimeout
from budget.http import HttpLimits, http_stream
from budget.ledger import Outcome
from budget.policy import Enforcement, Policy

Result = TypeVar("Result")
PROVIDER = Policy(dependency="openai", method="chat.completions", limit=5.0)
LIMITS = HttpLimits(first_byte=0.05, between=0.05, close=0.1)


def a_request(seconds: float = 20.0) -> Budget:
    return Budget.root(incoming=seconds, default=None, cap=None)


@dataclass
class Body:
    """A streamed answer: pauses, each followed by a chunk."""

    pauses: list[float] = field(default_factory=list)
    before_headers: float = 0.0
    closed: int = 0
    close_hangs: bool = False

    async def send(self, child: Budget) -> "Body":
        await asyncio.sleep(self.before_headers)
        return self

    async def __aiter__(self) -> AsyncIterator[int]:
        for number, pause in enumerate(self.pauses):
            await asyncio.sleep(pause)
            yield number

    async def close(self) -> None:
        self.closed += 1
        if self.close_hangs:
            await asyncio.Event().wait()
        await asyncio.sleep(0)


async def read(
    body: Body, budget: Budget, policy: Policy = PROVIDER, limits: HttpLimits = LIMITS
) -> list[int]:
    stream = http_stream(body.send, close=Body.close, budget=budget, policy=policy, limits=limits)
    async with stream as chunks:
        return [chunk async for chunk in chunks]


def endings(budget: Budget) -> list[tuple[Outcome, str]]:
    return [(one.outcome, one.reason) for one in budget.ledger.spends]


async def test_a_whole_body_is_read_and_closed_once() -> None:
    body, budget = Body(pauses=[0, 0.001, 0]), a_request()
    assert await read(body, budget) == [0, 1, 2]
    assert (body.closed, endings(budget)) == (1, [(Outcome.OK, "")])


@pytest.mark.parametrize("body", [Body(before_headers=5), Body(pauses=[5])], ids=["headers", "body"])
async def test_the_first_byte_has_its_limit_headers_included(body: Body) -> None:
    budget = a_request()
    with pytest.raises(FirstByteTimeout):
        await read(body, budget)
    assert endings(budget) == [(Outcome.TIMEOUT, "FIRST_BYTE")]
    assert body.closed == (0 if body.before_headers else 1)


async def test_silence_between_chunks_has_its_limit() -> None:
    body, budget = Body(pauses=[0, 0, 5]), a_request()
    with pytest.raises(StallTimeout):
        await read(body, budget)
    assert (body.closed, endings(budget)) == (1, [(Outcome.TIMEOUT, "STALL")])


async def test_what_lies_in_the_socket_when_the_loop_was_blocked_is_no_silence() -> None:
    """The limit passes while the loop is blocked: what came meanwhile, first byte or next chunk, is read."""
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours)

    def block(piece: bytes) -> None:
        theirs.send(piece)
        time.sleep(3 * LIMITS.between)

    loop, budget = asyncio.get_running_loop(), a_request()
    loop.call_later(LIMITS.first_byte / 5, block, b"1")
    chunks: list[bytes] = []
    body = http_stream(
        lambda _: _returned(Pieces(reader)),
        close=lambda _: _closed(writer),
        budget=budget,
        policy=PROVIDER,
        limits=LIMITS,
    )

    async def read_on() -> None:
        async with body as pieces:
            async for piece in pieces:
                chunks.append(piece)
                if len(chunks) < 3:
                    loop.call_later(LIMITS.between / 5, block, b"%d" % (len(chunks) + 1))

    with theirs, pytest.raises(StallTimeout):
        await read_on()
    assert [b"1", b"2", b"3"] == chunks
    assert endings(budget) == [(Outcome.TIMEOUT, "STALL")]


async def _returned(result: Result) -> Result:
    return result


async def _closed(writer: asyncio.StreamWriter) -> None:
    writer.close()


@dataclass
class Pieces:
    """What a socket brings, piece by piece."""

    reader: asyncio.StreamReader

    def __aiter__(self) -> "Pieces":
        return self

    async def __anext__(self) -> bytes:
        return await self.reader.read(1)


async def test_a_drip_is_cut_at_the_total() -> None:
    body, budget = Body(pauses=[0.01] * 1000), a_request()
    with pytest.raises(UpstreamTimeout):
        await read(body, budget, replace(PROVIDER, limit=0.1))
    assert (body.closed, endings(budget)) == (1, [(Outcome.TIMEOUT, "")])


async def test_a_drip_is_cut_when_the_budget_ends() -> None:
    body, budget = Body(pauses=[0.01] * 1000), a_request(0.2)
    with pytest.raises(BudgetExhausted):
        await read(body, budget)
    assert body.closed == 1
    assert budget.remaining() > 0


async def test_without_time_nothing_is_sent() -> None:
    body = Body(pauses=[0])
    with pytest.raises(BudgetTooLow):
        await read(body, a_request(0.02), replace(PROVIDER, floor=0.1))
    assert body.closed == 0


async def test_a_reader_that_leaves_early_closes_the_body() -> None:
    body, budget = Body(pauses=[0] * 100), a_request()
    async with http_stream(
        body.send, close=Body.close, budget=budget, policy=PROVIDER, limits=LIMITS
    ) as chunks:
        async for _ in chunks:
            break
    assert (body.closed, endings(budget)) == (1, [(Outcome.OK, "")])


async def test_a_reader_that_takes_its_time_is_not_a_silent_server() -> None:
    body, budget = Body(pauses=[0] * 3), a_request()
    seen = 0
    async with http_stream(
        body.send, close=Body.close, budget=budget, policy=PROVIDER, limits=LIMITS
    ) as chunks:
        async for _ in chunks:
            await asyncio.sleep(LIMITS.between * 1.5)
            seen += 1
    assert seen == 3


async def test_a_cancelled_reader_closes_the_body_before_it_goes() -> None:
    body, budget = Body(pauses=[0, 10]), a_request()
    relaxed = replace(LIMITS, between=10)
    task = asyncio.create_task(read(body, budget, limits=relaxed))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (body.closed, endings(budget)) == (1, [(Outcome.CANCELLED, "")])


async def test_a_close_that_hangs_is_given_up() -> None:
    body, budget = Body(pauses=[0], close_hangs=True), a_request()
    assert await read(body, budget) == [0]
    assert [(one.outcome, one.took < 1) for one in budget.ledger.spends] == [(Outcome.OK, True)]


async def test_observing_cuts_neither_first_byte_nor_silence() -> None:
    body, budget = Body(pauses=[0.1, 0.1]), a_request()
    observed = replace(PROVIDER, enforcement=Enforcement.OBSERVE, limit=0.05)
    assert await read(body, budget, observed) == [0, 1]
    assert [one.would_cut for one in budget.ledger.spends] == [True]


async def test_the_library_is_told_how_long_it_may_connect() -> None:
    assert LIMITS.connect_timeout(a_request().child(5.0)) == 0.4
    assert LIMITS.connect_timeout(a_request().child(0.1)) <= 0.1
