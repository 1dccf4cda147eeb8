"""A connection to one server, with the budget that its calls spend and the ledgers that they brought back."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

import grpc.aio
from google.protobuf.message import DecodeError
from grpc_health.v1.health_pb2_grpc import HealthStub

from budget import grpc_client
from budget.core import Budget
from budget.errors import BudgetError
from budget.grpc_client import Responses
from budget.wire import WIRE_STEP
from hourglass.budget.v1.ledger_pb2 import BudgetLedger
from hourglass.jobs.v1.admin_service_pb2_grpc import AdminServiceStub
from hourglass.jobs.v1.jobs_service_pb2_grpc import JobServiceStub
from hourglass_client import AsyncClient, HourglassError, WrongFiles
from hourglass_client.channel import DEFAULT_OPTIONS, aio_channel
from jobsctl.exits import ExitCode, Failure, ReaderGone
from jobsctl.failures import failure_of
from jobsctl.limits import policy_of
from jobsctl.printer import Printer
from jobsctl.settings import Settings

if TYPE_CHECKING:
    from hourglass.jobs.v1.admin_service_pb2_grpc import AdminServiceAsyncStub
    from hourglass.jobs.v1.jobs_service_pb2_grpc import JobServiceAsyncStub

Request = TypeVar("Request")
Response = TypeVar("Response")
Result = TypeVar("Result")

LEDGER: Final = "budget-ledger-bin"
LARGEST_PAGE: Final = 200
"""What lists give at most for one call."""


class Session:
    """The stubs, and how their methods are called. The printer writes what a command finds."""

    def __init__(self, channel: grpc.aio.Channel, settings: Settings, printer: Printer) -> None:
        self.jobs: JobServiceAsyncStub = JobServiceStub(channel)
        self.admin: AdminServiceAsyncStub = AdminServiceStub(channel)
        self.health: Any = HealthStub(channel)  # its types know neither asyncio nor List
        self.settings = settings
        self.printer = printer
        self.ledgers: list[BudgetLedger] = []
        self.client = AsyncClient(
            channel, metadata=settings.named, token=settings.token, on_ledger=self._keep
        )
        self._whole = None if settings.timeout is None else Budget.for_work(settings.timeout)

    async def call(
        self,
        name: str,
        method: grpc.aio.UnaryUnaryMultiCallable[Request, Response],
        request: Request,
    ) -> Response:
        """One unary call. Raises what `budget.grpc_client.call` raises."""
        kept: _Kept[Request] = _Kept(method)
        policy = policy_of(name, self.settings.timeout)
        try:
            return await grpc_client.call(
                cast("grpc.aio.UnaryUnaryMultiCallable[Request, Response]", kept),
                request,
                budget=self.budget(policy.limit),
                policy=policy,
                metadata=self.settings.metadata,
            )
        finally:
            self.ledgers += await kept.ledgers()

    @asynccontextmanager
    async def stream(
        self,
        name: str,
        method: grpc.aio.UnaryStreamMultiCallable[Request, Response],
        request: Request,
    ) -> AsyncIterator[Responses[Response]]:
        """One server stream for a block. Raises what `budget.grpc_client.stream` raises."""
        kept: _Kept[Request] = _Kept(method)
        policy = policy_of(name, self.settings.timeout)
        try:
            async with grpc_client.stream(
                cast("grpc.aio.UnaryStreamMultiCallable[Request, Response]", kept),
                request,
                budget=self.budget(policy.limit),
                policy=policy,
                metadata=self.settings.metadata,
            ) as responses:
                yield responses
        finally:
            self.ledgers += await kept.ledgers()

    def remaining(self) -> float | None:
        """Seconds that are left for the whole command; None when it was given no time."""
        return None if self._whole is None else max(self._whole.remaining(), WIRE_STEP)

    def budget(self, limit: float) -> Budget:
        """The whole command's, when it was given a time; else one of `limit` seconds, or without an end."""
        if self._whole is not None:
            return self._whole
        return Budget.for_stream(incoming=None) if math.isinf(limit) else Budget.for_work(limit)

    def _keep(self, _method: str, ledger: BudgetLedger) -> None:
        self.ledgers.append(ledger)


class _Kept(Generic[Request]):
    """A method that remembers its call, because the adapter hands out answers and no trailers."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        self._rpc: Any = None

    def __call__(self, request: Request, **options: Any) -> Any:
        self._rpc = self._method(request, **options)
        return self._rpc

    async def ledgers(self) -> list[BudgetLedger]:
        """What the trailers of an ended call say; nothing of one that was left."""
        if self._rpc is None or not self._rpc.done() or self._rpc.cancelled():
            return []
        trailers = await self._rpc.trailing_metadata()
        return [ledger for key, value in trailers or () if key == LEDGER and (ledger := _parsed(value))]


def _parsed(value: bytes) -> BudgetLedger | None:
    try:
        return BudgetLedger.FromString(value)
    except DecodeError:
        return None


def run(settings: Settings, work: Callable[[Session], Awaitable[Result]]) -> Result:
    """Do the work over a connection of its own; draw the ledgers, if they were asked for, however it ends.

    Raises Failure; ReaderGone; KeyboardInterrupt after everything was closed.
    """
    try:
        return asyncio.run(_run(settings, work))
    except BrokenPipeError as error:
        raise ReaderGone from error


def _channel(settings: Settings) -> grpc.aio.Channel:
    try:
        return aio_channel(settings.server, settings.tls, None, DEFAULT_OPTIONS)
    except WrongFiles as error:
        raise Failure(error.reason, str(error), code=ExitCode.USAGE) from error


async def _run(settings: Settings, work: Callable[[Session], Awaitable[Result]]) -> Result:
    async with _channel(settings) as channel:
        session = Session(channel, settings, Printer(settings.output))
        try:
            return await work(session)
        except (BudgetError, HourglassError) as error:
            raise failure_of(error, settings) from error
        finally:
            if settings.ledger:
                session.printer.ledgers(session.ledgers)
