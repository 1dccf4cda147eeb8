"""A server that the test plays by hand, and a clock that moves when the test says so (grpcio-testing).

Its channel takes no notice of deadlines; here a call's timer runs on the same clock.
"""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from random import Random
from typing import Any, TypeVar

import grpc_testing
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from grpc import StatusCode

from budget.retry import Backoff, Retries
from hourglass.jobs.v1 import jobs_service_pb2 as pb
from hourglass_client import Client, Terms

SERVICE = pb.DESCRIPTOR.services_by_name["JobService"]
PATIENT = 10.0
Result = TypeVar("Result")


class PlayedServer:
    """The other side of one `client`. timeouts, pauses: what the client asked for, in order."""

    def __init__(self, **terms: Any) -> None:
        self.time = grpc_testing.strict_fake_time(1000.0)
        self.timeouts: list[float | None] = []
        self.ledgers: list[tuple[str, Any]] = []
        self.pauses: queue.SimpleQueue[float] = queue.SimpleQueue()
        self._starting = threading.Lock()  # a call and its timer start together, as seen from the clock
        self._channel = grpc_testing.channel([SERVICE], self.time)
        self._invoke = self._channel._state.invoke_rpc
        self._channel._state.invoke_rpc = self._invoke_with_a_timer
        retries = Retries(backoff=Backoff(base=0.1, cap=2.0), random=Random(7))
        self.client = Client(
            self._channel,
            metadata=(("x-tenant-id", "demo"),),
            terms=Terms(**{"retries": retries, "clock": self.time.time, **terms}),
            on_ledger=lambda method, ledger: self.ledgers.append((method, ledger)),
            sleep=self._sleep,
        )

    def caller(self, work: Callable[[], Result]) -> "Future[Result]":
        """Start to use the client, in another thread, which no failed test waits for."""
        found: Future[Result] = Future()

        def call() -> None:
            try:
                found.set_result(work())
            except BaseException as error:  # noqa: BLE001 - it is raised where the test asks for the result
                found.set_exception(error)

        threading.Thread(target=call, daemon=True).start()
        return found

    def unary(self, method: str) -> tuple[dict[str, Any], Any, Any]:
        """The metadata, the request and the handle of the next call of a method."""
        metadata, request, rpc = self._channel.take_unary_unary(SERVICE.methods_by_name[method])
        return dict(metadata), request, rpc

    def stream(self, method: str = "WatchJob") -> tuple[Any, Any]:
        """The request and the handle of the next stream."""
        _, request, rpc = self._channel.take_unary_stream(SERVICE.methods_by_name[method])
        return request, rpc

    def pause(self) -> float:
        """Let the next pause of the client pass; its seconds."""
        seconds = self.pauses.get(timeout=PATIENT)
        self.pass_time(seconds)
        return seconds

    def pass_time(self, seconds: float) -> None:
        """Move the clock: timers that are due fire."""
        with self._starting:
            self.time.sleep_for(seconds)

    def _sleep(self, seconds: float) -> None:
        over = threading.Event()
        self.time.call_in(over.set, seconds)
        self.pauses.put(seconds)
        assert over.wait(PATIENT)

    def _invoke_with_a_timer(
        self, method: str, metadata: Any, requests: Any, closed: Any, timeout: float | None
    ) -> Any:
        self.timeouts.append(timeout)
        with self._starting:
            rpc = self._invoke(method, metadata, requests, closed, timeout)
            if timeout is not None:
                self.time.call_in(
                    lambda: rpc.cancel(StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded"), timeout
                )
        return rpc


def until(condition: Callable[[], object]) -> None:
    """Wait for a condition of the client's thread, within a bound."""
    deadline = time.monotonic() + PATIENT
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.001)


def taken(rpc: Any) -> bool:
    """Whether the client has read everything that was sent."""
    return not rpc._rpc_state._responses


def answer(rpc: Any, response: Message, trailers: Sequence[tuple[str, bytes]] = ()) -> None:
    """Answer a unary call."""
    rpc.terminate(response, trailers, StatusCode.OK, "")


def refusal(
    reason: str,
    *,
    retry_after: float | None = None,
    fields: Sequence[tuple[str, str]] = (),
    **metadata: str,
) -> tuple[tuple[str, bytes], ...]:
    """The trailers of an error of ours."""
    status = Status()
    status.details.add().Pack(ErrorInfo(reason=reason, domain="hourglass", metadata=metadata))
    if retry_after is not None:
        told = RetryInfo()
        told.retry_delay.FromNanoseconds(int(retry_after * 1e9))
        status.details.add().Pack(told)
    if fields:
        violations = [BadRequest.FieldViolation(field=f, description=d) for f, d in fields]
        status.details.add().Pack(BadRequest(field_violations=violations))
    return (("grpc-status-details-bin", status.SerializeToString()),)


def refuse(rpc: Any, code: StatusCode, reason: str = "", **told: Any) -> None:
    """Refuse a unary call, as a service of ours does; without a reason: as gRPC itself does."""
    rpc.terminate(None, refusal(reason, **told) if reason else (), code, "no")


def break_off(rpc: Any, code: StatusCode = StatusCode.UNAVAILABLE, reason: str = "", **told: Any) -> None:
    """End a stream early."""
    rpc.terminate(refusal(reason, **told) if reason else (), code, "broken off")


def end(rpc: Any) -> None:
    """End a stream well."""
    rpc.terminate((), StatusCode.OK, "")
