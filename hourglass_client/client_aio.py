"""The client for asyncio: as in `client`, with `await`."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import grpc
import grpc.aio

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
from hourglass_client.channel import DEFAULT_OPTIONS, OnLedger, Options, aio_channel, checked_token, ignored
from hourglass_client.course import Course, Kinds, OnBreak
from hourglass_client.errors import HourglassError, ledger_in
from hourglass_client.patience import Metadata, Patience, Terms, Tries, Waiting
from hourglass_client.requests import Call
from hourglass_client.streams_aio import AsyncStream, AsyncWatch, typed
from hourglass_client.transcript import Transcript
from transport.bearer import Token, bearer
from transport.files import TlsFiles

Request = TypeVar("Request")
Response = TypeVar("Response")


class AsyncClient:
    """JobService, for asyncio. One a loop; its methods may run at the same time.

        async with AsyncClient.connect("127.0.0.1:50051") as client:
            job = (await client.create(spec, timeout=2.0)).job
            job = await client.wait(job.job_id, content=True)

    Everything is as in `Client`. A cancel of the task ends the call at once, and nothing is tried after it.
    """

    def __init__(
        self,
        channel: grpc.aio.Channel,
        *,
        metadata: Metadata = (),
        token: Token | None = None,
        terms: Terms | None = None,
        on_ledger: OnLedger = ignored,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """A client over a channel of yours. metadata: goes with every call, such as `x-tenant-id`."""
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
        """As `Client.connect`."""
        encrypted = tls is not None or credentials is not None
        checked = checked_token(token, target, encrypted=encrypted, plaintext_token=plaintext_token)
        channel = aio_channel(target, tls, credentials, (*DEFAULT_OPTIONS, *options))
        return cls(channel, metadata=metadata, token=checked, terms=terms, on_ledger=on_ledger)

    async def quote(self, request: QuoteRequest, *, timeout: float | None = None) -> QuoteResponse:
        """As `Client.quote`."""
        return await self._unary(requests.quote(request), timeout)

    async def create(
        self, spec: JobSpec, *, key: str | None = None, quote_id: str = "", timeout: float | None = None
    ) -> CreateJobResponse:
        """As `Client.create`."""
        return await self._unary(requests.create(spec, key=key, quote_id=quote_id), timeout)

    async def get(
        self, job_id: str, *, attempts: bool = False, content: bool = False, timeout: float | None = None
    ) -> Job:
        """As `Client.get`."""
        return (await self._unary(requests.get(job_id, attempts=attempts, content=content), timeout)).job

    async def wait(self, job_id: str, *, content: bool = False, timeout: float | None = None) -> Job:
        """As `Client.wait`."""
        waiting = Waiting(timeout, self._terms)
        call = requests.wait(job_id, content=content)
        while True:
            try:
                pause = waiting.answered((await self._once(call, waiting.timeout, ())).job)
            except HourglassError as error:
                pause = waiting.failed(error)
            if pause is None:
                return waiting.answer
            await self._sleep(pause)

    def watch(
        self,
        job_id: str,
        *,
        transcript: Transcript | None = None,
        kinds: Kinds = (),
        timeout: float | None = None,
        on_break: OnBreak | None = None,
    ) -> AsyncWatch:
        """As `Client.watch`."""
        course = Course(
            job_id,
            transcript or Transcript(),
            Patience(timeout, self._terms),
            kinds=kinds,
            on_break=on_break,
        )
        return AsyncWatch(self._watch, course, self._sleep)

    async def cancel(
        self, job_id: str, *, reason: str = "", timeout: float | None = None
    ) -> CancelJobResponse:
        """As `Client.cancel`."""
        return await self._unary(requests.cancel(job_id, reason=reason), timeout)

    async def retry(
        self, job_id: str, *, reason: str, request_id: str | None = None, timeout: float | None = None
    ) -> RetryJobResponse:
        """As `Client.retry`."""
        return await self._unary(requests.retry(job_id, reason=reason, request_id=request_id), timeout)

    async def resolve(
        self,
        job_id: str,
        resolution: JobResolution.ValueType,
        *,
        reason: str,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> ResolveJobResponse:
        """As `Client.resolve`."""
        return await self._unary(
            requests.resolve(job_id, resolution, reason=reason, request_id=request_id), timeout
        )

    def generate(
        self, request: GenerateRequest, *, timeout: float | None = None
    ) -> AsyncStream[GenerateResponse]:
        """As `Client.generate`."""
        call = requests.generate(request)
        return self._stream(call.method, request, Tries(call, timeout, self._terms).timeout)

    async def close(self) -> None:
        """As `Client.close`."""
        await self._channel.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _raised: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _unary(self, call: Call[Request, Response], timeout: float | None) -> Response:
        tries = Tries(call, timeout, self._terms)
        while True:
            try:
                response = await self._once(call, tries.timeout, tries.metadata)
            except HourglassError as error:
                await self._sleep(tries.after(error))
            else:
                tries.succeeded()
                return response

    async def _once(self, call: Call[Any, Response], timeout: float | None, metadata: Metadata) -> Response:
        method: Any = getattr(self._stub, call.method)
        rpc = method(call.request, timeout=timeout, metadata=(*self._sent(), *metadata))
        try:
            response: Response = await typed(rpc)
            self._told(call.method, ledger_in(await rpc.trailing_metadata()))
        except HourglassError as error:
            self._told(call.method, error.ledger)
            raise
        finally:
            rpc.cancel()
        return response

    def _watch(self, request: WatchJobRequest, timeout: float | None) -> AsyncStream[WatchJobResponse]:
        return self._stream("WatchJob", request, timeout)

    def _stream(self, name: str, request: object, timeout: float | None) -> AsyncStream[Any]:
        method: Any = getattr(self._stub, name)
        rpc = method(request, timeout=timeout, metadata=self._sent())
        return AsyncStream(rpc, lambda ledger: self._told(name, ledger))

    def _sent(self) -> Metadata:
        return (*self._metadata, *bearer(self._token))

    def _told(self, method: str, ledger: BudgetLedger | None) -> None:
        if ledger is not None:
            self._on_ledger(method, ledger)
