"""Brings a database up to date: one runner at a time, each file whole or not at all."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib.resources import files
from typing import Final, TypeAlias

import asyncpg

from budget.core import Budget
from budget.errors import DatabaseTimeout, DatabaseUnavailable
from budget.policy import Policy
from budget.spend import spend
from migrations.errors import MigrationBlocked, MigrationError, ServerTooOld
from migrations.files import Migration, load
from migrations.plan import Applied, pending

CONNECT: Final = Policy(dependency="postgres", method="Connect", limit=10.0)
LOCK: Final = Policy(dependency="postgres", method="LockMigrations", limit=600.0)
HISTORY: Final = Policy(dependency="postgres", method="ReadHistory", limit=30.0)
APPLY: Final = Policy(dependency="postgres", method="ApplyMigration", limit=3600.0)
LOCK_WAIT_LIMIT: Final = 5.0  # how long others may queue behind a migration that itself waits for a lock
LOCK_ATTEMPTS: Final = 5
POLL_INTERVAL: Final = 0.1
CLOSE_LIMIT: Final = 2.0
OLDEST_SERVER: Final = 15

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

log = logging.getLogger(__name__)

_STATEMENTS = files("migrations") / "statements"
CREATE_HISTORY: Final = (_STATEMENTS / "create_history.sql").read_text()
HISTORY_EXISTS: Final = (_STATEMENTS / "history_exists.sql").read_text()
LIST_APPLIED: Final = (_STATEMENTS / "list_applied.sql").read_text()
RECORD_APPLIED: Final = (_STATEMENTS / "record_applied.sql").read_text()
TRY_LOCK: Final = (_STATEMENTS / "try_lock.sql").read_text()
LIMIT_STATEMENTS: Final = (_STATEMENTS / "limit_statements.sql").read_text()


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The history of a database beside what the files would add to it."""

    applied: tuple[Applied, ...]
    pending: tuple[Migration, ...]


async def migrate(
    dsn: str, *, budget: Budget, migrations: Sequence[Migration] | None = None
) -> tuple[Migration, ...]:
    """Apply what is missing as the owner, and return it.

    Safe to run twice, and by several at once: the others wait, within their budget, and find nothing left.

    Raises:
        MigrationError: with the migration's name. What was applied before it stays.
        BudgetError: the database did not answer in time, or another runner was busy for all of the budget.
    """
    known = load() if migrations is None else migrations
    async with _connection(dsn, budget=budget) as connection:
        await _take_lock(connection, budget=budget)
        missing = pending(known, await _history(connection, budget=budget, create=True))
        for migration in missing:
            await _apply(connection, migration, budget=budget)
    return missing


async def status(dsn: str, *, budget: Budget, migrations: Sequence[Migration] | None = None) -> Status:
    """Compare a database with the files, changing nothing.

    Raises:
        MigrationError: the history and the files contradict each other.
        BudgetError: the database did not answer in time.
    """
    known = load() if migrations is None else migrations
    async with _connection(dsn, budget=budget) as connection:
        applied = await _history(connection, budget=budget, create=False)
    return Status(applied=applied, pending=pending(known, applied))


@asynccontextmanager
async def _connection(dsn: str, *, budget: Budget) -> AsyncIterator[Connection]:
    try:
        async with spend(budget, CONNECT, timed_out=DatabaseTimeout):
            connection = await asyncpg.connect(
                dsn, server_settings={"application_name": "hourglass-migrations"}
            )
    except (OSError, asyncpg.CannotConnectNowError) as error:
        raise DatabaseUnavailable(dependency=CONNECT.dependency, method=CONNECT.method) from error
    except asyncpg.PostgresError as error:
        raise MigrationError(f"cannot connect: {error} (SQLSTATE {error.sqlstate})") from error
    try:
        _check_server(connection)
        yield connection
    finally:
        # Closing ends the session, and the advisory lock with it.
        await _close(connection, budget=Budget.for_work(CLOSE_LIMIT))


async def _close(connection: Connection, *, budget: Budget) -> None:
    with suppress(TimeoutError):  # the connection is then cut
        await connection.close(timeout=budget.remaining())


def _check_server(connection: Connection) -> None:
    version = connection.get_server_version()
    if version.major < OLDEST_SERVER:
        raise ServerTooOld(f"PostgreSQL {version.major} is too old: {OLDEST_SERVER} or newer is needed")


async def _take_lock(connection: Connection, *, budget: Budget) -> None:
    async with spend(budget, LOCK, timed_out=DatabaseTimeout):
        while not await connection.fetchval(TRY_LOCK):  # noqa: ASYNC110 (the holder is another process)
            await asyncio.sleep(POLL_INTERVAL)


async def _history(connection: Connection, *, budget: Budget, create: bool) -> tuple[Applied, ...]:
    async with spend(budget, HISTORY, timed_out=DatabaseTimeout):
        if create:
            await connection.execute(CREATE_HISTORY)
        elif not await connection.fetchval(HISTORY_EXISTS):
            return ()
        return tuple(Applied(**row) for row in await connection.fetch(LIST_APPLIED))


async def _apply(connection: Connection, migration: Migration, *, budget: Budget) -> None:
    """Apply one file, trying again when others hold its locks: each wait is short, so nobody queues long."""
    for attempt in range(1, LOCK_ATTEMPTS + 1):
        try:
            async with spend(budget, APPLY, attempt=attempt, timed_out=DatabaseTimeout) as child:
                await _apply_once(connection, migration, budget=child)
        except asyncpg.LockNotAvailableError as error:
            log.warning("migration %s waits for a lock (try %d of %d)", migration, attempt, LOCK_ATTEMPTS)
            if attempt == LOCK_ATTEMPTS:
                raise MigrationBlocked(
                    f"{migration}: {error}; nothing of it was applied, run it again"
                ) from error
        except asyncpg.PostgresError as error:
            raise MigrationError(_explain(migration, error)) from error
        else:
            log.info("applied migration %s", migration)
            return


async def _apply_once(connection: Connection, migration: Migration, *, budget: Budget) -> None:
    if migration.transactional:
        async with connection.transaction():
            await _run(connection, migration, budget=budget)
    else:
        await _run(connection, migration, budget=budget)


async def _run(connection: Connection, migration: Migration, *, budget: Budget) -> None:
    remaining = budget.remaining()
    await connection.execute(
        LIMIT_STATEMENTS,
        _milliseconds(min(LOCK_WAIT_LIMIT, remaining)),
        _milliseconds(remaining),
        migration.transactional,
    )
    await connection.execute(migration.sql)
    await connection.execute(RECORD_APPLIED, migration.version, migration.name, migration.checksum)


def _milliseconds(seconds: float) -> str:
    return str(max(1, int(seconds * 1000)))


def _explain(migration: Migration, error: asyncpg.PostgresError) -> str:
    position = getattr(error, "position", None)
    line = "" if position is None else f":{migration.sql.count(chr(10), 0, int(position)) + 1}"
    return f"{migration}.sql{line}: {error} (SQLSTATE {error.sqlstate})"
