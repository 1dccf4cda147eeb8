"""The database adapter over a real PostgreSQL: what goes wrong there, and the end."""

import asyncio
import time
from contextlib import suppress
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from budget.core import Budget
from budget.errors import (
    ConstraintViolation,
    DatabaseConflict,
    DatabaseError,
    DatabaseUnavailable,
)
from budget.postgres import Database
from tests.integration.budget.things import QUERY, a_request, backends, insert, locked
from tests.postgres import TestDatabase
from tests.waiting import eventually


async def test_a_broken_constraint_is_named(db: Database) -> None:
    await insert(db, a_request(), 1)
    with pytest.raises(ConstraintViolation) as caught:
        await insert(db, a_request(), 1)
    assert (caught.value.constraint, caught.value.sqlstate) == ("things_pkey", "23505")
    with pytest.raises(ConstraintViolation) as caught:
        await db.execute(a_request(), QUERY, "INSERT INTO things VALUES (2, -1)")
    assert (caught.value.constraint, caught.value.sqlstate) == ("things_size_check", "23514")


async def test_a_deadlock_is_a_conflict_that_may_be_tried_again(
    db: Database, observer: "asyncpg.Connection[Any]"
) -> None:
    await observer.execute("INSERT INTO things VALUES (1, 1), (2, 1)")
    slow = replace(QUERY, limit=4.0)
    met = asyncio.Barrier(2)

    async def update(first: int, second: int) -> BaseException | None:
        try:
            async with db.transaction(a_request(), slow) as transaction:
                await transaction.execute("UPDATE things SET size = 2 WHERE id = $1", first)
                await met.wait()
                await transaction.execute("UPDATE things SET size = 2 WHERE id = $1", second)
        except DatabaseConflict as error:
            return error
        return None

    ended = await asyncio.gather(update(1, 2), update(2, 1))
    (conflict,) = [one for one in ended if one is not None]
    assert isinstance(conflict, DatabaseConflict)
    assert conflict.sqlstate == "40P01"


async def test_a_row_that_is_locked_now_is_a_conflict_for_nowait(
    db: Database, observer: "asyncpg.Connection[Any]"
) -> None:
    async with locked(observer):
        with pytest.raises(DatabaseConflict):
            async with db.transaction(a_request(), QUERY) as transaction:
                await transaction.execute("LOCK TABLE things NOWAIT")


async def test_a_swallowed_failure_cannot_pass_for_a_commit(db: Database) -> None:
    async def swallow() -> None:
        async with db.transaction(a_request(), QUERY) as transaction:
            with suppress(ConstraintViolation):
                await transaction.execute("INSERT INTO things VALUES (1, -1)")

    with pytest.raises(DatabaseError) as caught:
        await swallow()
    assert caught.value.sqlstate == "25P02"
    assert db.in_use == 0


async def test_a_wrong_statement_stays_the_drivers_own_error(db: Database) -> None:
    with pytest.raises(asyncpg.UndefinedTableError):
        await db.fetch(a_request(), QUERY, "SELECT * FROM nothing")
    assert db.in_use == 0


async def test_a_killed_backend_is_unavailable_and_the_pool_heals(
    db: Database, observer: "asyncpg.Connection[Any]"
) -> None:
    async def use_a_dying_connection() -> None:
        async with db.transaction(a_request(), replace(QUERY, limit=4.0)) as transaction:
            pid = await transaction.fetchval("SELECT pg_backend_pid()")
            await observer.execute("SELECT pg_terminate_backend($1)", pid)
            await transaction.fetch("SELECT pg_sleep(5)")

    with pytest.raises(DatabaseUnavailable):
        await use_a_dying_connection()
    assert await db.fetchval(a_request(), QUERY, "SELECT 1") == 1
    assert db.in_use == 0


async def test_a_statement_cancelled_by_an_operator_is_not_a_timeout(
    db: Database, observer: "asyncpg.Connection[Any]"
) -> None:
    async def cancel_it() -> None:
        await eventually(lambda: backends(observer, "active"))
        await observer.execute(
            "SELECT pg_cancel_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'under-test' AND state = 'active'"
        )

    cancelling = asyncio.create_task(cancel_it())
    with pytest.raises(DatabaseUnavailable) as caught:
        await db.fetch(a_request(), replace(QUERY, limit=4.0), "SELECT pg_sleep(5)")
    await cancelling
    assert caught.value.sqlstate == "57014"


async def test_an_unreachable_server_is_unavailable_at_once() -> None:
    started = time.monotonic()
    with pytest.raises(DatabaseUnavailable):
        await Database.open(
            "postgresql://nobody@127.0.0.1:1/none",
            budget=Budget.for_work(5),
            size=1,
            application_name="under-test",
        )
    assert time.monotonic() - started < 2


async def test_closing_waits_for_work_in_progress(empty_database: TestDatabase) -> None:
    db = await Database.open(
        empty_database.owner, budget=Budget.for_work(10), size=1, application_name="under-test"
    )
    working = asyncio.create_task(db.fetchval(a_request(), QUERY, "SELECT pg_sleep(0.1)::text || 'done'"))
    await eventually(lambda: db.in_use)
    await db.close(Budget.for_work(5))
    assert await working == "done"


async def test_closing_ends_what_will_not_end_in_time(empty_database: TestDatabase) -> None:
    db = await Database.open(
        empty_database.owner, budget=Budget.for_work(10), size=1, application_name="under-test"
    )
    working = asyncio.create_task(db.fetch(a_request(), replace(QUERY, limit=4.0), "SELECT pg_sleep(4)"))
    await eventually(lambda: db.in_use)
    started = time.monotonic()
    await db.close(Budget.for_work(0.1))
    assert time.monotonic() - started < 1
    with pytest.raises(DatabaseUnavailable):
        await working
