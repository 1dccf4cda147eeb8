"""A table of things, and who works on it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from budget.core import Budget
from budget.ledger import Outcome
from budget.policy import Policy
from budget.postgres import Database

if TYPE_CHECKING:
    import asyncpg

SIZE = 4
QUERY = Policy(dependency="postgres", method="query", limit=0.4)
BRIEF = replace(QUERY, limit=0.15)


def a_request(seconds: float = 5.0) -> Budget:
    return Budget.root(incoming=seconds, default=None, cap=None)


def endings(budget: Budget) -> list[tuple[Outcome, str]]:
    return [(one.outcome, one.reason) for one in budget.ledger.spends]


async def backends(observer: "asyncpg.Connection[Any]", state: str = "%") -> int:
    found = await observer.fetchval(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'under-test' AND state LIKE $1", state
    )
    return int(found)


async def is_whole(db: Database, observer: "asyncpg.Connection[Any]") -> bool:
    return db.in_use == 0 and await backends(observer, "idle") == SIZE


async def insert(db: Database, budget: Budget, key: int, policy: Policy = QUERY) -> None:
    async with db.transaction(budget, policy) as transaction:
        await transaction.execute("INSERT INTO things (id, size) VALUES ($1, 1)", key)


@asynccontextmanager
async def locked(observer: "asyncpg.Connection[Any]") -> AsyncIterator[None]:
    async with observer.transaction():
        await observer.execute("LOCK TABLE things")
        yield
