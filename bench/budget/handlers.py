"""One handler, written by hand with fixed timeouts, and written with budgets. Both ask pricing, then INSERT.

The work, the trips to Postgres (one, autocommit, no reset of the connection) and the messages are the same.
"""

import time
from typing import Any, Final

import asyncpg
import grpc.aio
import structlog
from opentelemetry import trace
from typing_extensions import override

from bench.budget.limits import FIXED_TIMEOUT, INSERT, PRICING
from bench.budget.models import PROVIDER as PROVIDER_MODEL
from bench.budget.models import TRANSACTION
from bench.budget.provider_call import ProviderCall
from bench.budget.servicer import GetPriceOnly
from budget.core import Budget
from budget.errors import BudgetError
from budget.grpc_client import call
from budget.postgres import Database
from hourglass.pricing.v1 import pricing_service_pb2 as pb
from hourglass.pricing.v1 import pricing_service_pb2_grpc as pb_grpc
from servicekit.call import call_of, text_metadata
from servicekit.spans import server_span

Context = grpc.aio.ServicerContext[pb.GetPriceRequest, pb.GetPriceResponse]

INSERT_QUOTE: Final = "INSERT INTO bench_quotes (model, price_version) VALUES ($1, $2) RETURNING id"
_log: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger("bench.requests")
_tracer = trace.get_tracer("bench")


class NaiveHandler(GetPriceOnly):
    """What a user would write by hand: a fixed timeout for each dependency, errors mapped to UNAVAILABLE."""

    def __init__(
        self, pricing: "pb_grpc.PricingServiceAsyncStub", pool: "asyncpg.Pool[asyncpg.Record]"
    ) -> None:
        self._pricing = pricing
        self._pool = pool

    @override
    async def GetPrice(self, request: pb.GetPriceRequest, context: Context) -> pb.GetPriceResponse:
        try:
            price: pb.GetPriceResponse = await self._pricing.GetPrice(request, timeout=FIXED_TIMEOUT)
            async with self._pool.acquire(timeout=FIXED_TIMEOUT) as connection:
                await connection.fetchval(
                    INSERT_QUOTE, request.model, price.price_version, timeout=FIXED_TIMEOUT
                )
        except grpc.aio.AioRpcError as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, f"pricing: {error.code().name}")
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, f"database: {type(error).__name__}")
        return price


class ObservedNaiveHandler(NaiveHandler):
    """The same with what servicekit does beside budgets: a span and a structured log line a request."""

    @override
    async def GetPrice(self, request: pb.GetPriceRequest, context: Context) -> pb.GetPriceResponse:
        started, code = time.monotonic(), grpc.StatusCode.UNAVAILABLE
        metadata = text_metadata(context.invocation_metadata())
        with server_span(_tracer, "GetPrice", metadata, context.peer()) as span:
            try:
                price = await super().GetPrice(request, context)
                code = grpc.StatusCode.OK
            finally:
                took = round(time.monotonic() - started, 6)
                _log.info("request", method="GetPrice", code=code.name, duration=took)
                span.set_attribute("rpc.response.status_code", code.name)
                span.end()
        return price


class Quotes:
    """The work under a budget."""

    def __init__(
        self,
        pricing: "pb_grpc.PricingServiceAsyncStub",
        database: Database,
        provider: ProviderCall | None = None,
    ) -> None:
        self._pricing = pricing
        self._database = database
        self._provider = provider

    async def quote(self, request: pb.GetPriceRequest, budget: Budget) -> pb.GetPriceResponse:
        """Prices and writes down."""
        price: pb.GetPriceResponse = await call(
            self._pricing.GetPrice, request, budget=budget, policy=PRICING
        )
        if request.model == TRANSACTION:
            async with self._database.transaction(budget, INSERT) as transaction:
                await transaction.fetchval(INSERT_QUOTE, request.model, price.price_version)
        else:
            await self._database.fetchval(budget, INSERT, INSERT_QUOTE, request.model, price.price_version)
        if request.model == PROVIDER_MODEL and self._provider is not None:
            await self._provider.first_token(budget)
        return price


class BudgetHandler(GetPriceOnly):
    """Budgets alone: nothing of servicekit, errors mapped as in NaiveHandler."""

    def __init__(self, quotes: Quotes) -> None:
        self._quotes = quotes

    @override
    async def GetPrice(self, request: pb.GetPriceRequest, context: Context) -> pb.GetPriceResponse:
        budget = Budget.root(incoming=context.time_remaining(), default=1.0, cap=5.0)
        try:
            return await self._quotes.quote(request, budget)
        except BudgetError as error:
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, error.reason)
            raise


class ServedHandler(GetPriceOnly):
    """Budgets behind servicekit's interceptor, as in every service of ours."""

    def __init__(self, quotes: Quotes) -> None:
        self._quotes = quotes

    @override
    async def GetPrice(
        self, request: pb.GetPriceRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> pb.GetPriceResponse:
        return await self._quotes.quote(request, call_of(context).budget)
