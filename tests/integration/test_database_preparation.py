"""What the launcher promises about the database that it hands to the services."""

import asyncio
from pathlib import Path

import asyncpg
import pytest

from budget.core import Budget
from budget.errors import DatabaseUnavailable
from launcher.database import prepare
from launcher.roles import ROLES, WORKER, role_dsn
from tests.postgres import TestDatabase, TestServer

pytestmark = pytest.mark.every_postgres

LIMIT = 30.0


async def current_user(dsn: str) -> object:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval("SELECT current_user")
    finally:
        await connection.close()


async def test_every_role_of_the_services_can_connect(database: TestDatabase) -> None:
    prepared = await prepare(database.owner, budget=Budget.for_work(LIMIT))

    assert list(ROLES) == [await current_user(prepared.dsn(role)) for role in ROLES]


async def test_a_server_of_the_operator_is_not_stopped(database: TestDatabase) -> None:
    prepared = await prepare(database.owner, budget=Budget.for_work(LIMIT))

    await prepared.stop(budget=Budget.for_work(LIMIT))

    assert prepared.server is None
    assert "hourglass" == await current_user(database.owner)


async def test_with_a_password_in_the_dsn_the_roles_get_one_each(
    empty_database: TestDatabase, postgres_server: TestServer
) -> None:
    owner = empty_database.owner.replace("hourglass@", "hourglass:secret@")
    rules = postgres_server.running.data_directory / "pg_hba.conf"
    trusting = rules.read_text()
    rules.write_text("local all hourglass trust\nlocal all all scram-sha-256\n")
    try:
        await postgres_server.administer("SELECT pg_reload_conf()")
        await asyncio.gather(*(prepare(owner, budget=Budget.for_work(LIMIT)) for _ in range(3)))

        assert list(ROLES) == [await current_user(role_dsn(owner, role)) for role in ROLES]
        with pytest.raises(asyncpg.InvalidPasswordError):
            await current_user(
                role_dsn(empty_database.owner.replace("hourglass@", "hourglass:other@"), WORKER)
            )
    finally:
        rules.write_text(trusting)
        await postgres_server.administer("SELECT pg_reload_conf()")


async def test_nobody_at_the_given_address_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnavailable):
        await prepare(f"postgresql://owner@/jobs?host={tmp_path}", budget=Budget.for_work(LIMIT))
