"""One answer on its way: opened, read and closed, every wait under the limits of its pace."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final, Self, TypeVar

from budget.cancel import CancelWatch
from budget.core import Budget
from budget.outlast import outlast
from worker.providers.answer import Answer
from worker.providers.errors import ProviderError
from worker.providers.failure import failure_of, request_id_of
from worker.providers.spans import end_span, start_span
from worker.providers.storable_text import storable

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from openai import AsyncStream
    from openai.types.chat import ChatCompletionChunk

    from worker.providers.pace import Pace
    from worker.providers.protocol import GenerationEvent, GenerationRequest
    from worker.providers.routes import ProviderRoute
    from worker.providers.sending import Sending

CLOSE_LIMIT: Final = 1.0
"""Seconds for closing a connection whose call has already ended."""

Result = TypeVar("Result")


class Reading:
    """The events of one answer; an iterator without a generator, so there is nothing to leave open."""

    def __init__(
        self, route: ProviderRoute, request: GenerationRequest, pace: Pace, sending: Sending
    ) -> None:
        self._route = route
        self._pace = pace
        self._sending = sending
        self._answer = Answer(provider=route.name)
        self._first_token_by = pace.now + route.first_token
        self._first_token_seen = False
        self._chunks: AsyncStream[ChatCompletionChunk] | None = None
        self._events: deque[GenerationEvent] = deque()
        self._ended = False
        self._span = start_span(route, request)

    async def open(self, sending: Coroutine[Any, Any, AsyncStream[ChatCompletionChunk]]) -> None:
        """Sends the request and waits for the head of its response. Raises ProviderError."""
        self._chunks = await self._step(sending)
        self._answer.provider_request_id = storable(request_id_of(self._chunks.response.headers))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> GenerationEvent:
        while not self._events and not self._ended:
            await self._read_on()
        if self._events:
            return self._events.popleft()
        if fault := self._answer.fault():
            raise fault
        raise StopAsyncIteration

    def end(self, error: BaseException | None) -> None:
        """Writes down how the call ended: one line in the ledger, one span."""
        self._pace.end_with(error)
        answer = self._answer
        end_span(
            self._span,
            error,
            usage=answer.usage,
            finish_reason=answer.finish_reason,
            response_id=answer.provider_request_id,
        )

    async def close(self) -> None:
        """Closes the response, through any cancel, which is raised when it is done."""
        if self._chunks is None:
            return
        watch = CancelWatch.here()
        closing = asyncio.create_task(self._chunks.close(), name="close the provider's response")
        if not await outlast(closing, budget=Budget.for_work(CLOSE_LIMIT)):
            closing.cancel()
            await outlast(closing, budget=Budget.for_work(CLOSE_LIMIT))
        if closing.done() and not closing.cancelled():
            closing.exception()  # taken note of: a connection that is given up may fail as it likes
        watch.raise_if_cancelled()

    async def _read_on(self) -> None:
        try:
            more = await self._step(self._take_chunk())
        except ProviderError:
            if not self._answer.whole:
                raise
            more = False  # only a usage report was still to come
        if not more:
            self._ended = True
            self._events.extend(self._answer.end())

    async def _take_chunk(self) -> bool:
        assert self._chunks is not None
        chunk = await anext(self._chunks, None)
        if chunk is None:
            return False
        for delta in self._answer.read(chunk):
            self._first_token_seen = True
            self._events.append(delta)
        return True

    async def _step(self, work: Coroutine[Any, Any, Result]) -> Result:
        try:
            return await self._pace.step(work, limit=self._silence_limit())
        except Exception as error:
            raise failure_of(
                error,
                provider=self._route.name,
                sent=self._sending.begun,
                first_token_seen=self._first_token_seen,
                provider_request_id=self._answer.provider_request_id,
            ) from error

    def _silence_limit(self) -> float:
        if self._first_token_seen:
            return self._route.between_tokens
        return self._first_token_by - self._pace.now
