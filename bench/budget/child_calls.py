"""`python -m bench.budget.child_calls`: the processor time that a budget adds to one child call, and where it
goes. One caller after another in one process; budgeted and bare calls alternate in small batches. The budget
of the request is made on both sides: a request makes one, whatever it calls.
"""

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import asyncpg
import grpc.aio

from bench.budget.children import answer_parent, child
from bench.budget.environment import Environment
from bench.budget.figures import Figure, middle
from bench.budget.limits import FIXED_TIMEOUT, INSERT, PRICING
from bench.budget.models import QUICK
from budget.core import Budget
from budget.grpc_client import call
from budget.postgres import Database
from budget.spend import spend
from hourglass.pricing.v1.pricing_service_pb2 import GetPriceRequest
from hourglass.pricing.v1.pricing_service_pb2_grpc import PricingServiceStub
from servicekit.channels import client_options

if TYPE_CHECKING:
    from hourglass.pricing.v1.pricing_service_pb2_grpc import PricingServiceAsyncStub

BATCH: Final = 100
BATCHES: Final = 40
AIM: Final = 30.0
"""Microseconds a child call."""
_SELECT: Final = "SELECT 1"

Work = Callable[[], Awaitable[object]]


class ChildCalls:
    """The calls that are compared, by name."""

    def __init__(
        self, stub: "PricingServiceAsyncStub", pool: "asyncpg.Pool[asyncpg.Record]", database: Database
    ) -> None:
        self._stub = stub
        self._pool = pool
        self._database = database
        self._request = GetPriceRequest(model=QUICK, input_token_bound=1, max_output_token_count=1)

    def pairs(self) -> dict[str, tuple[Work, Work]]:
        """(budgeted, bare) for each kind of call."""
        return {
            "grpc call": (self.grpc, self.bare_grpc),
            "sql statement": (self.statement, self.bare_statement),
            "sql transaction": (self.transaction, self.bare_transaction),
            "spend": (self.spend, self.nothing),
            "asyncio.timeout": (self.timeout, self.nothing),
        }

    async def grpc(self) -> None:
        await call(self._stub.GetPrice, self._request, budget=_budget(), policy=PRICING)

    async def bare_grpc(self) -> None:
        _budget()
        await self._stub.GetPrice(self._request, timeout=FIXED_TIMEOUT)

    async def statement(self) -> None:
        await self._database.fetchval(_budget(), INSERT, _SELECT)

    async def bare_statement(self) -> None:
        _budget()
        async with self._pool.acquire(timeout=FIXED_TIMEOUT) as connection:
            await connection.fetchval(_SELECT, timeout=FIXED_TIMEOUT)

    async def transaction(self) -> None:
        async with self._database.transaction(_budget(), INSERT) as transaction:
            await transaction.fetchval(_SELECT)

    async def bare_transaction(self) -> None:
        _budget()
        async with self._pool.acquire(timeout=FIXED_TIMEOUT) as connection, connection.transaction():
            await connection.fetchval(_SELECT, timeout=FIXED_TIMEOUT)

    async def spend(self) -> None:
        async with spend(_budget(), PRICING):
            pass

    async def nothing(self) -> None:
        _budget()

    async def timeout(self) -> None:
        _budget()
        async with asyncio.timeout(FIXED_TIMEOUT):  # noqa: ASYNC100 - its own cost is wanted
            pass


def _budget() -> Budget:
    return Budget.root(incoming=FIXED_TIMEOUT, default=None, cap=None)


async def measure(pairs: Mapping[str, tuple[Work, Work]]) -> dict[str, dict[str, float]]:
    """Microseconds of processor time a call, for each pair."""
    return {name: await _compare(*pair) for name, pair in pairs.items()}


async def _compare(budgeted: Work, bare: Work) -> dict[str, float]:
    ours, theirs = [], []
    for _ in range(BATCHES):
        theirs.append(await _cost(bare))
        ours.append(await _cost(budgeted))
    added = [a - b for a, b in zip(ours, theirs, strict=True)]
    return {"budgeted": middle(ours), "bare": middle(theirs), "added": middle(added)}


async def _cost(work: Work) -> float:
    before = time.process_time()
    for _ in range(BATCH):
        await work()
    return (time.process_time() - before) / BATCH * 1e6


async def figures(environment: Environment) -> list[Figure]:
    """What a budget adds to each kind of call."""
    arguments = ("--pricing", str(environment.pricing.ready["target"]), "--dsn", environment.dsn)
    async with child("bench.budget.child_calls", *arguments, logs=environment.logs) as process:
        costs = await process.ask("measure", within=120.0)
    return [
        Figure(
            name=f"processor time that a budget adds: {name} (aim {AIM:g})",
            unit="us",
            ours=cost["added"],
            at_least=False,
            notes={"budgeted": cost["budgeted"], "bare": cost["bare"]},
        )
        for name, cost in costs.items()
    ]


async def main(asked: argparse.Namespace) -> None:
    """Measures when asked."""
    async with (
        grpc.aio.insecure_channel(asked.pricing, options=client_options()) as channel,
        asyncpg.create_pool(asked.dsn, min_size=1, max_size=1, reset=_nothing) as pool,
    ):
        database = await Database.open(
            asked.dsn, budget=Budget.for_work(10.0), size=1, application_name="bench child calls"
        )
        calls = ChildCalls(PricingServiceStub(channel), pool, database)

        async def answer(_asked: Mapping[str, Any]) -> dict[str, dict[str, float]]:
            return await measure(calls.pairs())

        await answer_parent({}, {"measure": answer})
        await database.close(Budget.for_work(1.0))


async def _nothing(_connection: object) -> None:
    """Sessions carry no state."""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pricing", required=True)
    parser.add_argument("--dsn", required=True)
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(main(_arguments()))
