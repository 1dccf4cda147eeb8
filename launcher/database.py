"""The stack's database: the server that DATABASE_URL names, or the embedded one, brought up to date."""

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final, TypeAlias

import asyncpg

from budget.core import Budget
from budget.errors import DatabaseTimeout
from budget.policy import Policy
from budget.spend import spend
from launcher import postgres
from launcher.errors import PostgresError
from launcher.postgres import DATA_DIRECTORY, RunningPostgres
from launcher.roles import ROLES, role_dsn, role_password
from migrations.runner import migrate

PREPARE: Final = Policy(dependency="postgres", method="PrepareRoles", limit=20.0)
CLOSE_LIMIT: Final = 2.0
SHOW_VERSION: Final = "SHOW server_version"
WRITE_SET_PASSWORD: Final = (files("launcher") / "statements" / "write_set_password.sql").read_text()

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """A database that the services can use. `server` is None when it is not ours to stop."""

    owner_dsn: str
    version: str
    server: RunningPostgres | None

    def dsn(self, role: str) -> str:
        """Where the services that have this role connect (`launcher.roles`)."""
        return role_dsn(self.owner_dsn, role)

    def __str__(self) -> str:
        if self.server is None:
            return f"PostgreSQL {self.version} of DATABASE_URL"
        return f"embedded PostgreSQL {self.version} in {self.server.data_directory}"

    async def stop(self, *, budget: Budget) -> None:
        """Stop the server, if we started it."""
        if self.server is not None:
            await asyncio.to_thread(self.server.stop, budget=budget)


async def prepare(
    database_url: str | None, *, budget: Budget, data_directory: Path = DATA_DIRECTORY
) -> Database:
    """Start or find the server, check its version, apply the migrations and let the services' roles in.

    Raises:
        PostgresError: the server does not start, or its roles cannot be given their passwords.
        MigrationError: see `migrations.runner.migrate`; ServerTooOld among them.
        BudgetError: it took longer than the budget, or nobody answers at DATABASE_URL.
    """
    if database_url:
        return await _bring_up_to_date(database_url, server=None, budget=budget)
    server = await _start(data_directory, budget=budget)
    try:
        return await _bring_up_to_date(server.dsn, server=server, budget=budget)
    except BaseException:
        await _stop(server, budget=Budget.for_work(postgres.STOP_LIMIT))
        raise


async def _start(data_directory: Path, *, budget: Budget) -> RunningPostgres:
    """A thread cannot be cancelled: a server that it has started after all is stopped again."""
    starting = asyncio.ensure_future(asyncio.to_thread(postgres.start, data_directory, budget=budget))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        with suppress(PostgresError):
            await _stop(await starting, budget=Budget.for_work(postgres.STOP_LIMIT))
        raise


async def _stop(server: RunningPostgres, *, budget: Budget) -> None:
    await asyncio.to_thread(server.stop, budget=budget)


async def _bring_up_to_date(owner_dsn: str, *, server: RunningPostgres | None, budget: Budget) -> Database:
    await migrate(owner_dsn, budget=budget)
    async with spend(budget, PREPARE, timed_out=DatabaseTimeout):
        connection = await asyncpg.connect(owner_dsn)
        try:
            await _set_passwords(connection, owner_dsn)
            version = await connection.fetchval(SHOW_VERSION)
        finally:
            await _close(connection, budget=Budget.for_work(CLOSE_LIMIT))
    return Database(owner_dsn=owner_dsn, version=version, server=server)


async def _set_passwords(connection: Connection, owner_dsn: str) -> None:
    """Give the roles the passwords that `role_dsn` will use; nothing to do where none are used.

    Two launchers at once set the same ones; the loser of that race (XX000, tuple concurrently updated) has
    nothing left to do.
    """
    for role in ROLES:
        password = role_password(owner_dsn, role)
        if password is None:
            continue
        try:
            await connection.execute(await connection.fetchval(WRITE_SET_PASSWORD, role, password))
        except asyncpg.InternalServerError:
            log.info("another launcher sets the password of %s", role)
        except asyncpg.PostgresError as error:
            raise PostgresError(f"cannot set the password of {role}: {error}") from error


async def _close(connection: Connection, *, budget: Budget) -> None:
    with suppress(TimeoutError):  # the connection is then cut
        await connection.close(timeout=budget.remaining())
