"""The client for callers that block: scripts, threads, WSGI."""

import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import grpc

from hourglass.budget.v1.ledger_pb2 import BudgetLedger
from hourglass.jobs.v1.job_pb2 import Job, JobSpec
from hourglass.jobs.v1.jobs_service_pb2 import (
    CancelJobResponse,
    CreateJobResponse,
    GenerateRequest,
    GenerateResponse,
    JobResolution,
    QuoteRequest,
    QuoteResponse,
    ResolveJobResponse,
    RetryJobResponse,
    WatchJobRequest,
    WatchJobResponse,
)
from hourglass.jobs.v1.jobs_service_pb2_grpc import JobServiceStub
from hourglass_client import requests
from hourglass_client.channel import (
    DEFAULT_OPTIONS,
    OnLedger,
    Options,
    blocking_channel,
    checked_token,
    ignored,
)
from hourglass_client.course import Course, Kinds, OnBreak
from hourglass_client.errors import HourglassError, error_of, ledger_in
from hourglass_client.patience import Metadata, Patience, Terms, Tries, Waiting
from hourglass_client.requests import Call
from hourglass_client.streams import Stream, Watch
from hourglass_client.transcript import Transcript
from transport.bearer import Token, bearer
from transport.files import TlsFiles

Request = TypeVar("Request")
Response = TypeVar("Response")


class Client:
    """JobService, for callers that block. Threads may share one.

        with Client.connect("127.0.0.1:50051") as client:
            job = client.create(spec, timeout=2.0).job
            job = client.wait(job.job_id, content=True)

    `timeout` of every method is seconds for the whole call, tries and waits between them included; it travels
    as the gRPC deadline. None: the longest budget that the contract gives the method; `wait` and `watch` then
    take as long as the job does.

    Every method raises the errors of `hourglass_client.errors`, and ValueError for a timeout that is none. A
    call that may be repeated is tried again, by the rules of docs/budget.md, when nobody could be reached or
    the server asks for it, as long as its time and the client's token bucket allow; `generate` never is.
    """

    def __init__(
        self,
        channel: grpc.Channel,
        *,
        metadata: Metadata = (),
        token: Token | None = None,
        terms: Terms | None = None,
        on_ledger: OnLedger = ignored,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """A client over a channel of yours. metadata: goes with every call, such as `x-tenant-id`. token:
        asked before every call for what proves who calls; the channel should be encrypted."""
        self._channel = channel
        self._stub = JobServiceStub(channel)
        self._metadata = metadata
        self._token = token
        self._terms = terms or Terms()
        self._on_ledger = on_ledger
        self._sleep = sleep

    @classmethod
    def connect(
        cls,
        target: str,
        *,
        tls: TlsFiles | None = None,
        credentials: grpc.ChannelCredentials | None = None,
        options: Options = (),
        metadata: Metadata = (),
        token: str | Path | Token | None = None,
        plaintext_token: bool = False,
        terms: Terms | None = None,
        on_ledger: OnLedger = ignored,
    ) -> Self:
        """A client with a channel of its own. target: `host:port` or what else gRPC resolves. tls: speak
        TLS with these files, which are read again when they change; `TlsFiles()` trusts whom gRPC does.
        credentials: speak TLS with these instead. token: a JWT or an API key as a text; a path is read again
        when it changes; a function is asked before every call. plaintext_token: lets it go in the clear to
        another machine, where something else encrypts. options: added to those that fit the services.

        Nothing is sent yet; an unreachable server shows in the first call. Raises WrongFiles, WrongToken, and
        ValueError for both tls and credentials or for a token in the clear."""
        encrypted = tls is not None or credentials is not None
        checked = checked_token(token, target, encrypted=encrypted, plaintext_token=plaintext_token)
        channel = blocking_channel(target, tls, credentials, (*DEFAULT_OPTIONS, *options))
        return cls(channel, metadata=metadata, token=checked, terms=terms, on_ledger=on_ledger)

    def quote(self, request: QuoteRequest, *, timeout: float | None = None) -> QuoteResponse:
        """What 1..16 models would cost. The answer's quote_id is for one `create`."""
        return self._unary(requests.quote(request), timeout)

    def create(
        self, spec: JobSpec, *, key: str | None = None, quote_id: str = "", timeout: float | None = None
    ) -> CreateJobResponse:
        """A job, once a key. key: the idempotency key; None: a fresh one, kept over all tries. An error has
        it as `key`: a create whose outcome is not known is safe to send again with it."""
        return self._unary(requests.create(spec, key=key, quote_id=quote_id), timeout)

    def get(
        self, job_id: str, *, attempts: bool = False, content: bool = False, timeout: float | None = None
    ) -> Job:
        """The job as it is. attempts: with attempts, reservations, and the ledger of its create. content:
        with spec and result."""
        return self._unary(requests.get(job_id, attempts=attempts, content=content), timeout).job

    def wait(self, job_id: str, *, content: bool = False, timeout: float | None = None) -> Job:
        """The job once it has ended, or as it is when the time is over: look at `state`. Outages are borne
        for the terms' patience. DeadlineExceeded only if nobody answered at all."""
        waiting = Waiting(timeout, self._terms)
        call = requests.wait(job_id, content=content)
        while True:
            try:
                pause = waiting.answered(self._once(call, waiting.timeout, ()).job)
            except HourglassError as error:
                pause = waiting.failed(error)
            if pause is None:
                return waiting.answer
            self._sleep(pause)

    def watch(
        self,
        job_id: str,
        *,
        transcript: Transcript | None = None,
        kinds: Kinds = (),
        timeout: float | None = None,
        on_break: OnBreak | None = None,
    ) -> Watch:
        """The job's events to its end, over dropped streams, other servers and other workers.

        transcript: go on after what it holds; `Transcript(after=sequence)` for a cursor alone.
        kinds: only these, and the terminal event; all when empty.
        on_break: told of each stream that ended early; may raise to end the watch.
        """
        course = Course(
            job_id,
            transcript or Transcript(),
            Patience(timeout, self._terms),
            kinds=kinds,
            on_break=on_break,
        )
        return Watch(self._watch, course, self._sleep)

    def cancel(self, job_id: str, *, reason: str = "", timeout: float | None = None) -> CancelJobResponse:
        """What was decided, and the job after it. A cancel that was tried twice may find the job ended by the
        first: ALREADY_TERMINAL with the state CANCELLED."""
        return self._unary(requests.cancel(job_id, reason=reason), timeout)

    def retry(
        self, job_id: str, *, reason: str, request_id: str | None = None, timeout: float | None = None
    ) -> RetryJobResponse:
        """A FAILED job to the queue again. request_id: as `key` of `create`."""
        return self._unary(requests.retry(job_id, reason=reason, request_id=request_id), timeout)

    def resolve(
        self,
        job_id: str,
        resolution: JobResolution.ValueType,
        *,
        reason: str,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> ResolveJobResponse:
        """What becomes of a HELD job. request_id: as `key` of `create`."""
        return self._unary(
            requests.resolve(job_id, resolution, reason=reason, request_id=request_id), timeout
        )

    def generate(self, request: GenerateRequest, *, timeout: float | None = None) -> Stream[GenerateResponse]:
        """One short answer that nobody keeps, as it comes. Leaving the block cancels the call, down to the
        provider; what was delivered until then is paid."""
        call = requests.generate(request)
        return self._stream(call.method, request, Tries(call, timeout, self._terms).timeout)

    def close(self) -> None:
        """Closes the channel; what is under way is cancelled."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _raised: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def _unary(self, call: Call[Request, Response], timeout: float | None) -> Response:
        tries = Tries(call, timeout, self._terms)
        while True:
            try:
                response = self._once(call, tries.timeout, tries.metadata)
            except HourglassError as error:
                self._sleep(tries.after(error))
            else:
                tries.succeeded()
                return response

    def _once(self, call: Call[Any, Response], timeout: float | None, metadata: Metadata) -> Response:
        method: Any = getattr(self._stub, call.method)
        try:
            response: Response
            response, ended = method.with_call(
                call.request, timeout=timeout, metadata=(*self._sent(), *metadata)
            )
        except grpc.RpcError as failed:
            error = error_of(failed)
            self._told(call.method, error.ledger)
            raise error from failed
        self._told(call.method, ledger_in(ended.trailing_metadata()))
        return response

    def _watch(self, request: WatchJobRequest, timeout: float | None) -> Stream[WatchJobResponse]:
        return self._stream("WatchJob", request, timeout)

    def _stream(self, name: str, request: object, timeout: float | None) -> Stream[Any]:
        method: Any = getattr(self._stub, name)
        rpc = method(request, timeout=timeout, metadata=self._sent())
        return Stream(rpc, lambda ledger: self._told(name, ledger))

    def _sent(self) -> Metadata:
        return (*self._metadata, *bearer(self._token))

    def _told(self, method: str, ledger: BudgetLedger | None) -> None:
        if ledger is not None:
            self._on_ledger(method, ledger)
