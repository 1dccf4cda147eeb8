"""Server streams for callers that block."""

from collections.abc import Callable
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import grpc

from hourglass.budget.v1.ledger_pb2 import BudgetLedger
from hourglass.jobs.v1.event_pb2 import JobEvent
from hourglass.jobs.v1.jobs_service_pb2 import WatchJobRequest, WatchJobResponse
from hourglass_client.course import Course
from hourglass_client.errors import HourglassError, error_of, ledger_in
from hourglass_client.transcript import Transcript

Message = TypeVar("Message")

Ended = Callable[[BudgetLedger | None], None]
"""Takes the ledger of a stream that has ended by itself, well or not."""


class _Closing:
    """Something that a `with` block closes."""

    def close(self) -> None:
        """Ends it."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _raised: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()


class Stream(_Closing, Generic[Message]):
    """The messages of one server stream, once. Use it in a `with` block: leaving it cancels the call.

    Each step raises what `errors` has, and nothing of gRPC's own.
    """

    def __init__(self, rpc: Any, ended: Ended) -> None:
        self._rpc = rpc
        self._ended = ended

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message:
        try:
            message: Message = next(self._rpc)
        except StopIteration:
            self._ended(ledger_in(self._rpc.trailing_metadata()))
            raise
        except grpc.RpcError as failed:
            error = error_of(failed)
            self._ended(error.ledger)
            raise error from failed
        return message

    def close(self) -> None:
        """Cancels the call, if it has not ended."""
        self._rpc.cancel()


Open = Callable[[WatchJobRequest, float | None], Stream[WatchJobResponse]]
"""Opens one stream with so many seconds to live; None: without an end."""


class Watch(_Closing):
    """A job's events in order, read on by cursor whenever a stream ends early, to the end of the job.

        with client.watch(job_id) as events:
            for event in events:
                print(events.text)

    An event that opens an epoch takes back what died with a worker: `transcript` and `text` hold what stands.
    Ends after the job's last event. `timeout` is one budget for all streams; DeadlineExceeded when it ends.
    After another error, iterating again goes on where it was.
    """

    def __init__(self, open_stream: Open, course: Course, sleep: Callable[[float], None]) -> None:
        self._open = open_stream
        self._course = course
        self._sleep = sleep
        self._stream: Stream[WatchJobResponse] | None = None

    @property
    def transcript(self) -> Transcript:
        """All that is known; give it to another `watch` to go on after it."""
        return self._course.transcript

    @property
    def text(self) -> str:
        """The answer of the present attempt so far."""
        return self.transcript.text

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> JobEvent:
        while not self._course.over:
            try:
                event = self._next()
            except HourglassError as error:
                self._drop()
                if not self._course.over:
                    self._sleep(self._course.broke(error))
            except BaseException:
                self._drop()
                raise
            else:
                if event is not None:
                    return event
        raise StopIteration

    def close(self) -> None:
        """Ends the watch; the job goes on."""
        self._course.over = True
        self._drop()

    def _next(self) -> JobEvent | None:
        """The next message's event. The end of the stream is the end of the job, if nobody closed it."""
        if self._stream is None:
            self._stream = self._open(self._course.request, self._course.timeout)
        message = next(self._stream, None)
        if message is None:
            self.close()
            return None
        return self._course.take(message)

    def _drop(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None
