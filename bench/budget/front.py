"""`python -m bench.budget.front SIDE ...`: the service that is measured, in a process of its own.

SIDE is `naive`, `naive-observed`, `budget` (nothing of servicekit), `served` (servicekit's whole path) or
`admitted` (the same with admission control).
"""

import argparse
import asyncio
import resource
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import asyncpg
import grpc.aio
import psutil

from bench.budget import handlers
from bench.budget.children import answer_parent
from bench.budget.limits import POOL_SIZE
from bench.budget.profiling import Profiling
from bench.budget.provider_call import ProviderCall
from budget.core import Budget
from budget.postgres import Database
from hourglass.pricing.v1 import pricing_service_pb2_grpc as pb_grpc
from servicekit.admission import AdmissionControl, AdmissionLimits
from servicekit.channels import client_options
from servicekit.lifecycle import collect_rarely
from servicekit.logs import configure_logs
from servicekit.methods import MethodPolicy
from servicekit.request import Terms
from servicekit.server import Server
from servicekit.settings import ServerSettings
from servicekit.telemetry import TelemetrySettings, start_telemetry

SERVICE: Final = "hourglass.pricing.v1.PricingService"
METHODS: Final = {
    f"/{SERVICE}/{method}": MethodPolicy(default=1.0, cap=5.0)
    for method in ("GetPrice", "ListPrices", "RateUsage")
}
_OPEN_LIMIT: Final = 10.0


class Front:
    """What the parent may ask of a side."""

    def __init__(self, database: Database | None, terms: Terms) -> None:
        self._database = database
        self._terms = terms

    async def usage(self, _asked: Mapping[str, Any]) -> dict[str, float]:
        """Processor seconds so far."""
        return {"cpu": time.process_time()}

    async def gauges(self, _asked: Mapping[str, Any]) -> dict[str, float]:
        """What a leak would show in."""
        database = self._database
        return {
            "rss_mib": psutil.Process().memory_info().rss / 2**20,
            "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10,
            "tasks": len(asyncio.all_tasks()),
            "in_flight": self._terms.drain.in_flight,
            "pool_in_use": database.in_use if database else 0,
            "pool_waiting": database.waiting if database else 0,
            "connections_lost": database.lost if database else 0,
        }


@asynccontextmanager
async def plain_server(handler: pb_grpc.PricingServiceServicer) -> AsyncIterator[str]:
    """A bare gRPC server."""
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    pb_grpc.add_PricingServiceServicer_to_server(handler, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(0)


@asynccontextmanager
async def our_server(handler: pb_grpc.PricingServiceServicer, terms: Terms) -> AsyncIterator[str]:
    """A server of servicekit's."""
    server = Server(ServerSettings(listen="127.0.0.1:0", drain_grace=1.0), METHODS, terms)
    server.add(SERVICE, pb_grpc.add_PricingServiceServicer_to_server, handler)
    async with server.serving({}):
        yield server.address


async def naive(stack: AsyncExitStack, asked: argparse.Namespace) -> tuple[Front, str]:
    """The side written by hand; its pool does not reset connections, as ours does not."""
    pricing = await _pricing(stack, asked.pricing)
    pool = asyncpg.create_pool(asked.dsn, min_size=POOL_SIZE, max_size=POOL_SIZE, reset=_nothing)
    await stack.enter_async_context(pool)
    kind = handlers.NaiveHandler
    if asked.side == "naive-observed":
        kind = handlers.ObservedNaiveHandler
        _observe()
    target = await stack.enter_async_context(plain_server(kind(pricing, pool)))
    return Front(None, Terms()), target


async def budgeted(stack: AsyncExitStack, asked: argparse.Namespace) -> tuple[Front, str]:
    """The sides that work under budgets."""
    pricing = await _pricing(stack, asked.pricing)
    database = await Database.open(
        asked.dsn, budget=Budget.for_work(_OPEN_LIMIT), size=POOL_SIZE, application_name=f"bench {asked.side}"
    )
    stack.push_async_callback(database.close, Budget.for_work(3600))
    provider = ProviderCall(asked.provider) if asked.provider else None
    quotes = handlers.Quotes(pricing, database, provider)
    terms = Terms(admission=AdmissionControl(AdmissionLimits()) if asked.side == "admitted" else None)
    if asked.side == "budget":
        server = plain_server(handlers.BudgetHandler(quotes))
    else:
        _observe()
        server = our_server(handlers.ServedHandler(quotes), terms)
    return Front(database, terms), await stack.enter_async_context(server)


def _observe() -> None:
    configure_logs("bench", log_format="json", stream=sys.stderr)
    start_telemetry("bench", "0", TelemetrySettings.load())


async def _pricing(stack: AsyncExitStack, target: str) -> "pb_grpc.PricingServiceAsyncStub":
    channel = await stack.enter_async_context(grpc.aio.insecure_channel(target, options=client_options()))
    await channel.channel_ready()
    return pb_grpc.PricingServiceStub(channel)


async def _nothing(_connection: object) -> None:
    """Sessions carry no state."""


async def main(asked: argparse.Namespace) -> None:
    """Serves until the parent leaves."""
    build = naive if asked.side.startswith("naive") else budgeted
    async with AsyncExitStack() as stack:
        front, target = await build(stack, asked)
        collect_rarely()
        await answer_parent(
            {"target": target},
            {"usage": front.usage, "gauges": front.gauges, "profile": Profiling().profile},
        )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("side", choices=["naive", "naive-observed", "budget", "served", "admitted"])
    parser.add_argument("--pricing", required=True)
    parser.add_argument("--dsn", required=True)
    parser.add_argument("--provider", default="")
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(main(_arguments()))
