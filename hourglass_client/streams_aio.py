"""Server streams for asyncio: as in `streams`."""

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import grpc.aio
from grpc import StatusCode

from budget.cancel import CancelWatch
from hourglass.jobs.v1.event_pb2 import JobEvent
from hourglass.jobs.v1.jobs_service_pb2 import WatchJobRequest, WatchJobResponse
from hourglass_client.course import Course
from hourglass_client.errors import Cancelled, HourglassError, error_of, ledger_in
from hourglass_client.streams import Ended
from hourglass_client.transcript import Transcript

Answer = TypeVar("Answer")
Message = TypeVar("Message")


async def typed(answer: Awaitable[Answer]) -> Answer:
    """An answer of gRPC's, or its error typed. A cancel of the task stays one; any other is the server's."""
    watch = CancelWatch.here()
    try:
        return await answer
    except grpc.aio.AioRpcError as failed:
        watch.raise_if_cancelled()
        raise error_of(failed) from failed
    except asyncio.CancelledError:
        if watch.cancelled:
            raise
        raise Cancelled("The call was closed by the other side", code=StatusCode.CANCELLED) from None


class _Closing:
    """Something that an `async with` block closes."""

    def close(self) -> None:
        """Ends it; nothing is waited for."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _raised: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncStream(_Closing, Generic[Message]):
    """`Stream` for asyncio. A stream that is left open runs on: use it in an `async with` block."""

    def __init__(self, rpc: Any, ended: Ended) -> None:
        self._rpc = rpc
        self._ended = ended

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        try:
            message = await typed(self._rpc.read())
        except HourglassError as error:
            self._ended(error.ledger)
            raise
        if message is grpc.aio.EOF:
            self._ended(ledger_in(await self._rpc.trailing_metadata()))
            raise StopAsyncIteration
        told: Message = message
        return told

    def close(self) -> None:
        """Cancels the call, if it has not ended."""
        self._rpc.cancel()


AsyncOpen = Callable[[WatchJobRequest, float | None], AsyncStream[WatchJobResponse]]
"""Opens one stream with so many seconds to live; None: without an end."""


class AsyncWatch(_Closing):
    """`Watch` for asyncio.

    async with client.watch(job_id) as events:
        async for event in events:
            print(events.text)
    """

    def __init__(
        self, open_stream: AsyncOpen, course: Course, sleep: Callable[[float], Awaitable[None]]
    ) -> None:
        self._open = open_stream
        self._course = course
        self._sleep = sleep
        self._stream: AsyncStream[WatchJobResponse] | None = None

    @property
    def transcript(self) -> Transcript:
        """All that is known; give it to another `watch` to go on after it."""
        return self._course.transcript

    @property
    def text(self) -> str:
        """The answer of the present attempt so far."""
        return self.transcript.text

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> JobEvent:
        while not self._course.over:
            try:
                event = await self._next()
            except HourglassError as error:
                self._drop()
                if not self._course.over:
                    await self._sleep(self._course.broke(error))
            except BaseException:
                self._drop()
                raise
            else:
                if event is not None:
                    return event
        raise StopAsyncIteration

    def close(self) -> None:
        """Ends the watch; the job goes on."""
        self._course.over = True
        self._drop()

    async def _next(self) -> JobEvent | None:
        if self._stream is None:
            self._stream = self._open(self._course.request, self._course.timeout)
        message = await anext(self._stream, None)
        if message is None:
            self.close()
            return None
        return self._course.take(message)

    def _drop(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None
