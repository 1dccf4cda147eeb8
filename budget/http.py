"""HTTP streams under a budget, whatever the client library: first byte, silence between chunks, and the
total.

A library's read timeout bounds one read, so an answer that drips a byte a second never ends (measured: 4.1 s
under `timeout=0.5`). Here the total is always bounded, and the body is closed in every ending.
"""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Generic, Self, TypeVar

from budget.core import Budget
from budget.errors import FirstByteTimeout, StallTimeout, UpstreamTimeout
from budget.outlast import outlast, patience
from budget.policy import Policy
from budget.spend import spend

Chunk = TypeVar("Chunk")
Result = TypeVar("Result")

_TURNS: Final = 8
"""Of the event loop: one carries data from the socket to its reader, a client library adds a few."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """Seconds inside one call; its policy's limit and its budget bound the total.

    connect, tls: for the library, which knows when it connects (`connect_timeout`).
    first_byte: from the request until the first chunk of the answer's body.
    between: silence between two chunks.
    close: closing the body; after that the close is abandoned.
    """

    first_byte: float
    between: float
    connect: float = 0.2
    tls: float = 0.2
    close: float = 0.5

    def connect_timeout(self, child: Budget) -> float:
        """What to give the library for DNS, connecting and TLS together."""
        return min(self.connect + self.tls, child.remaining())


@asynccontextmanager
async def http_stream(
    send: Callable[[Budget], Awaitable[AsyncIterable[Chunk]]],
    *,
    close: Callable[[Any], Awaitable[object]],
    budget: Budget,
    policy: Policy,
    limits: HttpLimits,
    attempt: int = 1,
) -> AsyncIterator["Chunks[Chunk]"]:
    """Sends a request and offers its streamed body for the length of a block; one spend covers all of it.

        async with http_stream(send, close=Stream.close, budget=budget, policy=policy, limits=limits) as
        chunks:
            async for chunk in chunks: ...

    send: sends the request under a child budget and returns the open stream, with the library's retries off.
    close: ends the stream; called once in every ending after `send` returned, and seen through.

    Raises BudgetTooLow (not sent), BudgetExhausted, FirstByteTimeout, StallTimeout, UpstreamTimeout (total);
    errors of the library pass as they are.
    """
    async with spend(budget, policy, attempt=attempt) as child:
        first_byte = _part_of(child, limits.first_byte, policy)
        source = await _within(first_byte, lambda: send(child), FirstByteTimeout, policy)
        try:
            yield Chunks(source, first_byte=first_byte, child=child, policy=policy, between=limits.between)
        finally:
            await _see_closed(close(source), patience(budget, limits.close))


class Chunks(Generic[Chunk]):
    """The chunks of a body. What the reader does between two of them is not counted as silence."""

    def __init__(
        self,
        source: AsyncIterable[Chunk],
        *,
        first_byte: Budget | None,
        child: Budget,
        policy: Policy,
        between: float,
    ) -> None:
        self._chunks = aiter(source)
        self._first_byte = first_byte
        self._begun = False
        self._child = child
        self._policy = policy
        self._between = between

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Chunk:
        if self._begun:
            between = _part_of(self._child, self._between, self._policy)
            return await _within(between, self._chunks.__anext__, StallTimeout, self._policy)
        chunk = await _within(self._first_byte, self._chunks.__anext__, FirstByteTimeout, self._policy)
        self._begun = True
        return chunk


def _part_of(child: Budget, limit: float, policy: Policy) -> Budget | None:
    """A limit inside the total; None when the total comes first, or when the policy only observes."""
    return None if policy.observed or limit >= child.remaining() else child.child(limit)


async def _within(
    limit: Budget | None, work: Callable[[], Awaitable[Result]], kind: type[UpstreamTimeout], policy: Policy
) -> Result:
    if limit is None:
        return await work()
    too_late = kind(dependency=policy.dependency, method=policy.method, limit=limit.initial)
    timer = asyncio.timeout(None)
    silence = _Silence(timer, max(limit.remaining(), 0.0))
    try:
        async with timer:
            return await work()
    except TimeoutError:
        if not timer.expired():
            raise
        raise too_late from None
    finally:
        silence.end()


class _Silence:
    """Lets a timer expire after `seconds`, unless what was waited for lies in the socket by then.

    When the event loop was blocked, the timer and the data are due in the same turn of the loop. The data
    came first, so the reader gets some turns to take them.
    """

    def __init__(self, timer: asyncio.Timeout, seconds: float) -> None:
        self._timer = timer
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.Handle = self._loop.call_later(seconds, self._believe, _TURNS)

    def end(self) -> None:
        """What was waited for is there, or nobody waits any more."""
        self._handle.cancel()

    def _believe(self, turns: int) -> None:
        if turns:
            self._handle = self._loop.call_soon(self._believe, turns - 1)
        else:
            self._timer.reschedule(self._loop.time())


async def _see_closed(closing: Awaitable[object], budget: Budget) -> None:
    task = asyncio.ensure_future(closing)
    if not await outlast(task, budget=budget):
        task.cancel()
    await asyncio.wait({task}, timeout=budget.initial)
    if task.done() and not task.cancelled():
        task.exception()  # what the body held is known; how it closed changes nothing
