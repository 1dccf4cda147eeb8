"""What the migrations' runner promises, over real databases."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from budget.core import Budget
from budget.errors import BudgetExhausted, DatabaseUnavailable
from migrations import runner
from migrations.errors import DatabaseNewerThanCode, MigrationBlocked, MigrationChanged, MigrationError
from migrations.files import Migration, load
from migrations.runner import migrate, status
from tests.postgres import TestDatabase
from tests.waiting import eventually

pytestmark = pytest.mark.every_postgres

LIMIT = 20.0
ASLEEP = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()"


def numbered(*statements: str) -> tuple[Migration, ...]:
    return tuple(
        Migration(
            version=version,
            name=f"step_{version}",
            sql=sql,
            checksum=hashlib.sha256(sql.encode()).hexdigest(),
        )
        for version, sql in enumerate(statements, start=1)
    )


@asynccontextmanager
async def connected(dsn: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    connection = await asyncpg.connect(dsn)
    try:
        yield connection
    finally:
        await connection.close()


async def tables(dsn: str) -> set[str]:
    async with connected(dsn) as connection:
        rows = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    return {row["tablename"] for row in rows} - {"schema_migrations"}


async def test_a_second_run_applies_nothing(empty_database: TestDatabase) -> None:
    steps = numbered("CREATE TABLE a ()", "CREATE TABLE b ()")

    first = await migrate(empty_database.owner, budget=Budget.for_work(LIMIT), migrations=steps)
    second = await migrate(empty_database.owner, budget=Budget.for_work(LIMIT), migrations=steps)

    assert (steps, ()) == (first, second)
    assert {"a", "b"} == await tables(empty_database.owner)


async def test_runners_at_the_same_time_apply_each_migration_once(empty_database: TestDatabase) -> None:
    steps = numbered("CREATE TABLE a (); SELECT pg_sleep(0.2)", "CREATE TABLE b ()")

    runs = await asyncio.gather(
        *(migrate(empty_database.owner, budget=Budget.for_work(LIMIT), migrations=steps) for _ in range(4))
    )

    assert [(), (), (), steps] == sorted(runs, key=len)


async def test_a_failing_file_leaves_nothing_of_itself_and_keeps_what_came_before(
    empty_database: TestDatabase,
) -> None:
    steps = numbered("CREATE TABLE a ()", "CREATE TABLE b ();\nCREATE TABLE c (x nonsense)")

    with pytest.raises(MigrationError, match=r"0002_step_2\.sql:2: .*nonsense.*42704"):
        await migrate(empty_database.owner, budget=Budget.for_work(LIMIT), migrations=steps)

    assert {"a"} == await tables(empty_database.owner)
    found = await status(empty_database.owner, budget=Budget.for_work(LIMIT), migrations=steps)
    assert ([1], [2]) == ([done.version for done in found.applied], [left.version for left in found.pending])


async def test_a_file_that_changed_after_it_was_applied_is_refused(empty_database: TestDatabase) -> None:
    await migrate(
        empty_database.owner, budget=Budget.for_work(LIMIT), migrations=numbered("CREATE TABLE a ()")
    )

    with pytest.raises(MigrationChanged, match="0001_step_1"):
        await migrate(
            empty_database.owner,
            budget=Budget.for_work(LIMIT),
            migrations=numbered("CREATE TABLE a (x int)", "CREATE TABLE b ()"),
        )

    assert {"a"} == await tables(empty_database.owner)


async def test_a_database_of_a_newer_release_is_refused(empty_database: TestDatabase) -> None:
    newer = numbered("CREATE TABLE a ()", "CREATE TABLE b ()")
    await migrate(empty_database.owner, budget=Budget.for_work(LIMIT), migrations=newer)

    with pytest.raises(DatabaseNewerThanCode, match="0002_step_2"):
        await migrate(empty_database.owner, budget=Budget.for_work(LIMIT), migrations=newer[:1])


async def test_a_file_may_run_outside_a_transaction(empty_database: TestDatabase) -> None:
    steps = numbered(
        "CREATE TABLE a (x int)",
        "-- migrate: no transaction\nCREATE INDEX CONCURRENTLY IF NOT EXISTS a_x ON a (x)",
    )

    applied = await migrate(empty_database.owner, budget=Budget.for_work(LIMIT), migrations=steps)

    assert steps == applied


async def test_a_runner_that_waits_does_not_hold_up_a_concurrent_index(empty_database: TestDatabase) -> None:
    steps = numbered(
        "CREATE TABLE a (x int); SELECT pg_sleep(0.2)",
        "-- migrate: no transaction\nCREATE INDEX CONCURRENTLY IF NOT EXISTS a_x ON a (x)",
    )

    runs = await asyncio.gather(
        *(migrate(empty_database.owner, budget=Budget.for_work(LIMIT), migrations=steps) for _ in range(3))
    )

    assert [(), (), steps] == sorted(runs, key=len)


async def test_a_busy_table_delays_a_migration_but_does_not_block_it_for_ever(
    empty_database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "LOCK_WAIT_LIMIT", 0.05)
    await migrate(
        empty_database.owner, budget=Budget.for_work(LIMIT), migrations=numbered("CREATE TABLE a ()")
    )
    steps = numbered("CREATE TABLE a ()", "ALTER TABLE a ADD COLUMN x int")

    async with connected(empty_database.owner) as reader, reader.transaction():
        await reader.execute("SELECT FROM a")
        with pytest.raises(MigrationBlocked, match="0002_step_2"):
            await migrate(empty_database.owner, budget=Budget.for_work(LIMIT), migrations=steps)
    applied = await migrate(empty_database.owner, budget=Budget.for_work(LIMIT), migrations=steps)

    assert steps[1:] == applied


async def test_a_runner_waits_for_another_only_as_long_as_its_budget(empty_database: TestDatabase) -> None:
    async with connected(empty_database.owner) as other:
        assert await other.fetchval(runner.TRY_LOCK)
        budget = Budget.for_work(0.5)

        with pytest.raises(BudgetExhausted):
            await migrate(empty_database.owner, budget=budget, migrations=numbered("CREATE TABLE a ()"))

    assert set() == await tables(empty_database.owner)


async def test_a_cancelled_migration_is_rolled_back(empty_database: TestDatabase) -> None:
    steps = numbered("CREATE TABLE a (); SELECT pg_sleep(30)")
    run = asyncio.create_task(migrate(empty_database.owner, budget=Budget.for_work(LIMIT), migrations=steps))
    async with connected(empty_database.owner) as observer:

        async def sleeping() -> bool:
            return await observer.fetchval(ASLEEP) is not None

        await eventually(sleeping)
        run.cancel()

        with pytest.raises(asyncio.CancelledError):
            await run

        assert not await sleeping()
    assert set() == await tables(empty_database.owner)


async def test_status_changes_nothing(empty_database: TestDatabase) -> None:
    steps = numbered("CREATE TABLE a ()")

    found = await status(empty_database.owner, budget=Budget.for_work(LIMIT), migrations=steps)

    assert ((), steps) == (found.applied, found.pending)
    async with connected(empty_database.owner) as connection:
        assert await connection.fetchval("SELECT to_regclass('public.schema_migrations')") is None


async def test_a_server_that_is_not_there_is_named_unavailable() -> None:
    with pytest.raises(DatabaseUnavailable):
        await migrate(
            "postgresql://nobody@/none?host=/nonexistent", budget=Budget.for_work(LIMIT), migrations=()
        )


async def test_the_shipped_migrations_bring_a_database_up_to_date(database: TestDatabase) -> None:
    found = await status(database.owner, budget=Budget.for_work(LIMIT))

    assert [m.checksum for m in load()] == [done.checksum for done in found.applied]
    assert () == found.pending
