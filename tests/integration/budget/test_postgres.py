"""The database adapter over a real PostgreSQL: time, cancels and the pool."""

import asyncio
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from budget.core import Budget
from budget.errors import (
    BudgetExhausted,
    BudgetTooLow,
    DatabaseTimeout,
    LockTimeout,
    PoolTimeout,
)
from budget.ledger import Outcome
from budget.postgres import Database
from tests.integration.budget.things import (
    BRIEF,
    QUERY,
    SIZE,
    a_request,
    backends,
    endings,
    insert,
    is_whole,
    locked,
)
from tests.waiting import eventually


async def test_a_transaction_is_one_spend_and_is_committed(
    db: Database, observer: "asyncpg.Connection[Any]"
) -> None:
    budget = a_request()
    async with db.transaction(budget, QUERY) as transaction:
        assert await transaction.execute("INSERT INTO things VALUES ($1, 1)", 7) == "INSERT 0 1"
        assert await transaction.fetchval("SELECT id FROM things") == 7
        assert await transaction.fetchrow("SELECT id FROM things WHERE id = 8") is None
        assert [tuple(row) for row in await transaction.fetch("SELECT id, size FROM things")] == [(7, 1)]
    assert endings(budget) == [(Outcome.OK, "")]
    assert await observer.fetchval("SELECT count(*) FROM things") == 1


async def test_a_block_that_raises_leaves_nothing_and_its_connection_is_back_at_once(
    db: Database, observer: "asyncpg.Connection[Any]"
) -> None:
    budget = a_request()
    with suppress(KeyError):
        async with db.transaction(budget, QUERY) as transaction:
            await transaction.execute("INSERT INTO things VALUES (1, 1)")
            raise KeyError("reason")
    assert db.in_use == 0
    assert await is_whole(db, observer)
    assert await observer.fetchval("SELECT count(*) FROM things") == 0
    assert endings(budget) == [(Outcome.ERROR, "KeyError")]


async def test_the_servers_limits_lie_just_below_ours_and_end_with_the_transaction(db: Database) -> None:
    async with db.transaction(a_request(), QUERY, tenants=["a", "b-1"]) as transaction:
        names = ("statement_timeout", "lock_timeout", "hourglass.tenants")
        shown = [await transaction.fetchval("SELECT current_setting($1)", name) for name in names]
    statement, lock = (int(text.removesuffix("ms")) for text in shown[:2])
    assert 370 <= statement < 400
    assert statement - 1 == lock
    assert shown[2] == "a,b-1"
    for _ in range(SIZE * 2):
        assert await db.fetchval(a_request(), QUERY, "SHOW statement_timeout") == "0"
        assert not await db.fetchval(a_request(), QUERY, "SELECT current_setting('hourglass.tenants', true)")


@pytest.mark.parametrize("tenant", ["", "A", "a'; DROP TABLE things; --", "a,b", "a" * 64, "a\n"])
async def test_a_malformed_tenant_never_reaches_the_server(
    db: Database, observer: "asyncpg.Connection[Any]", tenant: str
) -> None:
    with pytest.raises(ValueError, match="tenants"):
        async with db.transaction(a_request(), QUERY, tenants=["good", tenant]):
            pytest.fail("it opened")
    assert await is_whole(db, observer)


async def test_below_the_floor_neither_pool_nor_server_is_touched(db: Database) -> None:
    budget = a_request(0.02)
    with pytest.raises(BudgetTooLow):
        await insert(db, budget, 1, replace(QUERY, floor=0.05))
    assert (db.in_use, endings(budget)) == (0, [(Outcome.REFUSED_LOW, "")])


async def test_after_a_cancel_the_backend_is_idle_and_its_connection_is_used_again(
    db: Database, observer: "asyncpg.Connection[Any]"
) -> None:
    budget = a_request()
    before = await pids(observer)
    task = asyncio.create_task(db.fetch(budget, replace(QUERY, limit=4.0), "SELECT pg_sleep(30)"))
    await eventually(lambda: backends(observer, "active"))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await eventually(lambda: is_whole(db, observer), within=0.5)
    assert endings(budget) == [(Outcome.CANCELLED, "")]
    assert await pids(observer) == before
    assert db.lost == 0


async def test_a_cancel_between_the_steps_of_a_statement_leaves_no_backend_in_the_middle_of_it(
    db: Database, observer: "asyncpg.Connection[Any]"
) -> None:
    for step in range(150):
        statement = f"SELECT {step} FROM things"  # a new one has to be prepared first
        task = asyncio.create_task(db.fetch(a_request(), QUERY, statement))
        await asyncio.sleep(step % 50 * 0.00003)
        task.cancel()
        await asyncio.wait({task})
        await eventually(lambda: is_whole(db, observer), within=0.5)
    locks = "SELECT count(*) FROM pg_locks WHERE relation = 'things'::regclass AND pid <> pg_backend_pid()"
    assert await observer.fetchval(locks) == 0


async def pids(observer: "asyncpg.Connection[Any]") -> set[int]:
    """The backends of the pool."""
    found = await observer.fetch("SELECT pid FROM pg_stat_activity WHERE application_name = 'under-test'")
    return {row["pid"] for row in found}


async def test_a_cancelled_transaction_is_rolled_back_and_its_locks_are_free(
    db: Database, observer: "asyncpg.Connection[Any]"
) -> None:
    inside = asyncio.Event()

    async def hold() -> None:
        async with db.transaction(a_request(), replace(QUERY, limit=4.0)) as transaction:
            await transaction.execute("INSERT INTO things VALUES (1, 1)")
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(hold())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await eventually(lambda: is_whole(db, observer), within=0.5)
    await insert(db, a_request(), 1)
    assert db.lost == 0


async def test_behind_a_table_lock_all_waiters_fail_in_their_limit_and_the_pool_is_whole_again(
    db: Database, observer: "asyncpg.Connection[Any]"
) -> None:
    async def timed(number: int) -> tuple[float, BaseException | None]:
        started = time.monotonic()
        try:
            await insert(db, a_request(), number, BRIEF)
        except DatabaseTimeout as error:
            return time.monotonic() - started, error
        return time.monotonic() - started, None

    async with locked(observer):
        results = await asyncio.gather(*(timed(number) for number in range(12)))
    assert all(isinstance(error, DatabaseTimeout) for _, error in results)
    assert any(isinstance(error, PoolTimeout) for _, error in results)
    assert min(took for took, _ in results) >= BRIEF.limit - 0.001
    assert max(took for took, _ in results) < BRIEF.limit + 0.3
    await eventually(lambda: is_whole(db, observer), within=1.0)
    assert db.lost == 0
    await insert(db, a_request(), 99)


async def test_a_lock_a_slow_statement_and_the_pool_are_told_apart_in_the_ledger(
    db: Database, observer: "asyncpg.Connection[Any]"
) -> None:
    budget = a_request()
    holding = [asyncio.create_task(db.fetch(budget, QUERY, "SELECT pg_sleep(5)")) for _ in range(SIZE)]
    await eventually(lambda: db.in_use == SIZE)
    with pytest.raises(PoolTimeout):
        await insert(db, budget, 1, BRIEF)
    await asyncio.wait(holding)
    await eventually(lambda: db.in_use == 0)
    async with locked(observer):
        with pytest.raises(LockTimeout):
            await insert_patiently(db, budget)
    assert Counter(endings(budget)) == {
        (Outcome.TIMEOUT, "POOL"): 1,
        (Outcome.TIMEOUT, ""): SIZE,
        (Outcome.TIMEOUT, "LOCK"): 1,
    }
    assert {type(task.exception()) for task in holding} == {DatabaseTimeout}


async def insert_patiently(db: Database, budget: Budget) -> None:
    """An insert that waits for locks for a much shorter time than for all else."""
    async with db.transaction(budget, QUERY) as transaction:
        await transaction.execute("SET LOCAL lock_timeout = 20")
        await transaction.execute("INSERT INTO things VALUES (1, 1)")


async def test_64_cancelled_waiters_leave_the_pool_whole(
    db: Database, observer: "asyncpg.Connection[Any]"
) -> None:
    async with locked(observer):
        patient = replace(QUERY, limit=4.0)
        tasks = [asyncio.create_task(insert(db, a_request(), number, patient)) for number in range(64)]
        await eventually(lambda: db.waiting == 64 - SIZE)
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(one) for one in ended} == {asyncio.CancelledError}
        await eventually(lambda: is_whole(db, observer), within=0.5)
    assert (db.in_use, db.waiting, db.lost) == (0, 0, 0)
    assert await observer.fetchval("SELECT count(*) FROM things") == 0


async def test_cancels_at_random_moments_leak_nothing(
    db: Database, observer: "asyncpg.Connection[Any]"
) -> None:
    async def once(number: int) -> None:
        task = asyncio.create_task(insert(db, a_request(), number))
        for _ in range(number % 23):
            await asyncio.sleep(0)
        await asyncio.sleep((number % 7) * 0.0003)
        task.cancel()
        await asyncio.wait({task})

    for start in range(0, 400, 8):
        await asyncio.gather(*(once(start + offset) for offset in range(8)))
    await eventually(lambda: is_whole(db, observer), within=1.0)
    assert db.lost == 0


async def test_a_dead_waiter_never_gets_a_connection_ahead_of_a_live_one(
    db: Database, observer: "asyncpg.Connection[Any]"
) -> None:
    async with locked(observer):
        holders = [
            asyncio.create_task(insert(db, a_request(), number, replace(QUERY, limit=2.0)))
            for number in range(SIZE)
        ]
        await eventually(lambda: db.in_use == SIZE)
        dead = asyncio.create_task(insert(db, a_request(), 100, replace(QUERY, limit=0.02)))
        live = asyncio.create_task(insert(db, a_request(), 101, replace(QUERY, limit=2.0)))
        with pytest.raises(PoolTimeout):
            await dead
    await asyncio.gather(*holders, live)
    stored = {row["id"] for row in await observer.fetch("SELECT id FROM things")}
    assert stored == {0, 1, 2, 3, 101}


async def test_a_budget_that_ends_first_is_exhausted_not_a_slow_database(db: Database) -> None:
    budget = a_request(0.1)
    with pytest.raises(BudgetExhausted):
        async with db.transaction(budget, QUERY) as transaction:
            await transaction.fetch("SELECT pg_sleep(5)")
    assert endings(budget) == [(Outcome.EXHAUSTED, "")]


async def test_a_slow_statement_is_stopped_by_the_server_without_a_cancel(
    db: Database, observer: "asyncpg.Connection[Any]"
) -> None:
    before = await pids(observer)
    budget = a_request()
    started = time.monotonic()
    with pytest.raises(DatabaseTimeout) as caught:
        async with db.transaction(budget, BRIEF) as transaction:
            await transaction.fetch("SELECT pg_sleep(5)")
    assert asyncpg.QueryCanceledError in history_of(caught.value)
    assert BRIEF.limit - 0.001 <= time.monotonic() - started < BRIEF.limit + 0.1
    assert endings(budget) == [(Outcome.TIMEOUT, "")]
    assert await pids(observer) == before


def history_of(error: BaseException | None) -> list[type[BaseException]]:
    history = []
    while error is not None:
        history.append(type(error))
        error = error.__cause__ or error.__context__
    return history
