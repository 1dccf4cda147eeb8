"""Holding rows in a connection of the test's own, and seeing who waits and what is free."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeAlias

import asyncpg

from tests.store import Store
from tests.waiting import eventually

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

ROW = {
    "idempotency_keys": "SELECT FROM hourglass.idempotency_keys",
    "finished_jobs": "SELECT FROM hourglass.finished_jobs",
    "jobs": "SELECT FROM hourglass.jobs",
    "reservations": "SELECT FROM hourglass.reservations",
    "lanes": "SELECT FROM hourglass.lanes",
    "tenant_limits": "SELECT FROM hourglass.tenant_limits",
    "tenant_funds": "SELECT FROM hourglass.tenant_funds",
}
"""The rows of a table, in a test with one of each."""


@asynccontextmanager
async def superuser(store: Store) -> AsyncIterator[Connection]:
    """A connection that sees and may do everything."""
    connection: Connection = await asyncpg.connect(store.database.owner)
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def holding(store: Store, table: str) -> AsyncIterator[None]:
    """Every row of a table is locked by somebody else, until the block ends."""
    async with superuser(store) as connection, connection.transaction():
        await connection.fetch(f"{ROW[table]} FOR NO KEY UPDATE")
        yield


async def until_waiting(connection: Connection, count: int = 1) -> None:
    """Until `count` statements of this database wait for a lock."""

    async def waiting() -> bool:
        waiters: int = await connection.fetchval(
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return count == waiters

    await eventually(waiting)


async def locked_tables(connection: Connection) -> set[str]:
    """The tables whose rows somebody has locked."""
    return {table for table in ROW if await _is_locked(connection, table)}


async def _is_locked(connection: Connection, table: str) -> bool:
    there = await connection.fetch(ROW[table])
    async with connection.transaction():
        free = await connection.fetch(f"{ROW[table]} FOR NO KEY UPDATE SKIP LOCKED")
    return len(free) < len(there)
