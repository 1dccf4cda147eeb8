"""gRPC calls under a budget: the deadline on the wire, the call cancelled in every ending, typed errors.

C core's own retries are off (it waits out a pushback longer than the deadline; see budget.retry), and service
config's `timeout` is not used (it never reaches the wire): every call here carries its own.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from typing import Final, Generic, Self, TypeVar, cast

import grpc.aio

from budget.cancel import CancelWatch
from budget.core import Budget
from budget.errors import UpstreamError
from budget.grpc_errors import is_bare_deadline, typed_error
from budget.policy import Policy
from budget.spans import GrpcSpan
from budget.spend import spend

Request = TypeVar("Request")
Response = TypeVar("Response")
Metadata = Sequence[tuple[str, str]]
ChannelOptions = tuple[tuple[str, int], ...]

CHANNEL_OPTIONS: Final[ChannelOptions] = (
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),  # C core obeys http_proxy, for names inside a cluster too
    # Back within half a second after an outage; the defaults take up to 3.7 s. The minimum is also what core
    # gives one attempt to connect: calls meanwhile wait, and their own budgets end them.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),  # a silent stream is where keepalive is needed
)
"""For every channel. Its server has to allow the pings (`SERVER_PING_OPTIONS`), or answers too_many_pings."""

SERVER_PING_OPTIONS: Final[ChannelOptions] = (
    ("grpc.http2.min_ping_interval_without_data_ms", 15_000),
    ("grpc.keepalive_permit_without_calls", 1),
)
"""For every server (C core's default is 5 minutes): half of the clients' interval, so that a late ping that a
punctual one follows is no offence."""


async def call(
    method: grpc.aio.UnaryUnaryMultiCallable[Request, Response],
    request: Request,
    *,
    budget: Budget,
    policy: Policy,
    metadata: Metadata = (),
    attempt: int = 1,
) -> Response:
    """One unary call, a child of the current span on its way through the services.

    Raises BudgetTooLow (not sent), BudgetExhausted, UpstreamTimeout or UpstreamError.
    """
    with GrpcSpan(policy, method, attempt=attempt) as span:
        # Core ends the call at its own deadline, in whatever state the channel is.
        async with spend(budget, policy, attempt=attempt, timed=False) as child:
            rpc = method(request, timeout=child.wire_timeout(), metadata=span.headers(metadata))
            try:
                return await _answer(rpc, child=child, policy=policy)
            finally:
                rpc.cancel()


@asynccontextmanager
async def stream(
    method: grpc.aio.UnaryStreamMultiCallable[Request, Response],
    request: Request,
    *,
    budget: Budget,
    policy: Policy,
    metadata: Metadata = (),
    attempt: int = 1,
) -> AsyncIterator["Responses[Response]"]:
    """One server stream, open for the length of a block; leaving the block in any way cancels the call.

        async with stream(stub.WatchJob, request, budget=budget, policy=policy) as events:
            async for event in events: ...

    The whole block is one spend: the policy's limit is the stream's total. Raises what `call` raises.
    """
    with GrpcSpan(policy, method, attempt=attempt) as span:
        async with spend(budget, policy, attempt=attempt) as child:
            rpc = method(request, timeout=child.wire_timeout(), metadata=span.headers(metadata))
            try:
                yield Responses(rpc, child=child, policy=policy)
            finally:
                rpc.cancel()


class Responses(Generic[Response]):
    """The messages of a stream, errors typed. It is no generator, so there is nothing to leave open."""

    def __init__(
        self, rpc: grpc.aio.UnaryStreamCall[Request, Response], *, child: Budget, policy: Policy
    ) -> None:
        self._rpc = rpc
        self._child = child
        self._policy = policy

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Response:
        message = await _answer(self._rpc.read(), child=self._child, policy=self._policy)
        if message is grpc.aio.EOF:
            raise StopAsyncIteration
        return cast("Response", message)


async def _answer(reading: Awaitable[Response], *, child: Budget, policy: Policy) -> Response:
    watch = CancelWatch.here()
    try:
        return await reading
    except grpc.aio.AioRpcError as error:
        if is_bare_deadline(error) and _is_about_to_end(child):
            await asyncio.sleep(child.remaining())
        raise typed_error(error, policy) from error
    except asyncio.CancelledError:
        if watch.cancelled:
            raise
        # grpc.aio shows a status CANCELLED that the server sent in this shape too.
        raise UpstreamError(dependency=policy.dependency, method=policy.method, code="CANCELLED") from None


def _is_about_to_end(child: Budget) -> bool:
    # The wire's timeout was floored by up to one step of the grid (1 % of its length), so C core's timer is a
    # little early. The instant that counts is the child's own.
    return child.remaining() <= 0.002 + 0.011 * child.initial
