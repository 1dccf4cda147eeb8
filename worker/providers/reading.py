"""One streamed answer: taken in chunk by chunk, handed on event by event.

Both classes are iterators, not generators: there is nothing to leave open.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, Final, Self

from worker.providers.failure import failure_of, request_id_of
from worker.providers.storable_text import storable

if TYPE_CHECKING:
    from openai import AsyncStream
    from openai.types.chat import ChatCompletionChunk

    from budget.core import Budget
    from budget.http import Chunks
    from worker.providers.answer import Answer
    from worker.providers.protocol import Delta, GenerationEvent
    from worker.providers.sending import Sending

USAGE_LIMIT: Final = 2.0
"""Seconds that a whole answer waits for its usage report, at most half of what is left."""

Text = tuple["Delta", ...]


class AnswerSource:
    """The open stream of the SDK, read into an answer. Raises ProviderError.

    Before the first text, chunks without text are passed over: they are no answer yet.
    """

    def __init__(
        self, stream: AsyncStream[ChatCompletionChunk], answer: Answer, sending: Sending, child: Budget
    ) -> None:
        self._stream = stream
        self._answer = answer
        self._sending = sending
        self._child = child
        answer.provider_request_id = storable(request_id_of(stream.response.headers))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Text:
        while True:
            text = await (self._take_usage() if self._answer.whole else self._take())
            if text is None:
                raise StopAsyncIteration
            if self._answer.text_seen or self._answer.whole:
                if self._answer.began is None:
                    self._answer.began = time.monotonic()
                return text

    async def close(self) -> None:
        """Closes the response, and with it the connection if the answer has not ended."""
        await self._stream.close()

    async def _take(self) -> Text | None:
        try:
            return await self._take_chunk()
        except Exception as error:
            raise failure_of(error, self._answer, sent=self._sending.begun) from error

    async def _take_usage(self) -> Text | None:
        """Whatever goes wrong now, the answer itself has arrived."""
        wait = min(USAGE_LIMIT, self._child.remaining() / 2)
        try:
            async with asyncio.timeout(max(wait, 0.001)):
                return await self._take_chunk()
        except Exception:  # noqa: BLE001 - see above; the usage stays unknown
            return None

    async def _take_chunk(self) -> Text | None:
        chunk = await anext(self._stream, None)
        return None if chunk is None else tuple(self._answer.read(chunk))


class Events:
    """The events of an answer, the last ones included. Raises its fault after them."""

    def __init__(self, chunks: Chunks[Text], answer: Answer) -> None:
        self._chunks = chunks
        self._answer = answer
        self._pending: deque[GenerationEvent] = deque()
        self._ended = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> GenerationEvent:
        while not self._pending and not self._ended:
            await self._read_on()
        if self._pending:
            return self._pending.popleft()
        if fault := self._answer.fault():
            raise fault
        raise StopAsyncIteration

    async def _read_on(self) -> None:
        try:
            self._pending.extend(await anext(self._chunks))
        except StopAsyncIteration:
            self._ended = True
            self._pending.extend(self._answer.end())
