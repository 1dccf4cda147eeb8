"""The database adapter when the network misbehaves at the worst moments."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from budget.core import Budget
from budget.errors import CommitOutcomeUnknown, DatabaseTimeout, DatabaseUnavailable
from budget.ledger import Outcome
from budget.policy import Policy
from budget.postgres import Database, DatabaseLimits
from tests.chaos_proxy import ChaosProxy
from tests.postgres import TestDatabase
from tests.waiting import eventually

SIZE = 2
QUERY = Policy(dependency="postgres", method="query", limit=4.0)
BRIEF = replace(QUERY, limit=0.15)
LIMITS = DatabaseLimits(cancel=0.2, clean_up=0.4, commit=1.0)


def a_request(seconds: float = 5.0) -> Budget:
    return Budget.root(incoming=seconds, default=None, cap=None)


@pytest.fixture
async def observer(empty_database: TestDatabase) -> AsyncIterator["asyncpg.Connection[Any]"]:
    """A session that does not go through the proxy."""
    connection = await asyncpg.connect(empty_database.owner)
    await connection.execute("CREATE TABLE things (id int PRIMARY KEY)")
    yield connection
    await connection.close()


@pytest.fixture
async def proxy(empty_database: TestDatabase) -> AsyncIterator[ChaosProxy]:
    query = parse_qs(urlsplit(empty_database.owner).query)
    port = query.get("port", ["5432"])[0]
    async with ChaosProxy.to_unix(Path(query["host"][0]) / f".s.PGSQL.{port}") as running:
        yield running


@pytest.fixture
async def db(empty_database: TestDatabase, proxy: ChaosProxy, observer: object) -> AsyncIterator[Database]:
    parts = urlsplit(empty_database.owner)
    dsn = f"postgresql://{parts.username}@127.0.0.1:{proxy.port}{parts.path}?sslmode=disable"
    opened = await Database.open(
        dsn, budget=Budget.for_work(10), size=SIZE, application_name="under-test", limits=LIMITS
    )
    yield opened
    await opened.close(Budget.for_work(1))


async def stored(observer: "asyncpg.Connection[Any]") -> int:
    return int(await observer.fetchval("SELECT count(*) FROM things"))


async def stores(observer: "asyncpg.Connection[Any]", number: int) -> bool:
    return await stored(observer) == number


async def commit_while(db: Database, proxy: ChaosProxy, budget: Budget, policy: Policy = QUERY) -> None:
    """A transaction whose COMMIT is sent and whose answer the proxy keeps."""
    async with db.transaction(budget, policy) as transaction:
        await transaction.execute("INSERT INTO things SELECT count(*) + 1 FROM things")
        proxy.withhold()


async def test_a_caller_that_leaves_during_commit_is_cancelled_after_the_outcome_is_known(
    db: Database, proxy: ChaosProxy, observer: "asyncpg.Connection[Any]"
) -> None:
    budget = a_request()
    task = asyncio.create_task(commit_while(db, proxy, budget))
    await eventually(lambda: stored(observer))
    task.cancel()
    done, _ = await asyncio.wait({task}, timeout=0.1)
    assert not done, "it left before the outcome was known"
    proxy.flow()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [one.outcome for one in budget.ledger.spends] == [Outcome.CANCELLED]
    assert (db.in_use, db.lost) == (0, 0)


async def test_the_ledger_says_what_came_of_a_commit_that_its_caller_left(
    db: Database, proxy: ChaosProxy, observer: "asyncpg.Connection[Any]"
) -> None:
    """Committed, or nobody knows: a plain `cancelled` is a transaction that left nothing."""
    heard, unheard = a_request(), a_request(1.0)
    for number, budget in enumerate((heard, unheard), start=1):
        task = asyncio.create_task(commit_while(db, proxy, budget))
        await eventually(partial(stores, observer, number))
        task.cancel()
        await asyncio.wait({task}, timeout=0.05)
        if budget is heard:
            proxy.flow()
        with pytest.raises(asyncio.CancelledError):
            await task
    proxy.flow()
    told = [(one.outcome, one.reason) for budget in (heard, unheard) for one in budget.ledger.spends]
    assert [(Outcome.CANCELLED, "COMPLETED"), (Outcome.CANCELLED, "COMMIT_OUTCOME_UNKNOWN")] == told
    await eventually(lambda: db.in_use == 0)


async def test_a_commit_that_is_late_but_answers_is_a_success(
    db: Database, proxy: ChaosProxy, observer: "asyncpg.Connection[Any]"
) -> None:
    budget = a_request()
    task = asyncio.create_task(commit_while(db, proxy, budget, BRIEF))
    await eventually(lambda: stored(observer))
    await asyncio.wait({task}, timeout=2 * BRIEF.limit)
    proxy.flow()
    await task
    (one,) = budget.ledger.spends
    assert one.outcome is Outcome.OK
    assert one.took > BRIEF.limit
    assert (db.in_use, db.lost) == (0, 0)


async def test_a_connection_that_dies_during_commit_leaves_the_outcome_unknown(
    db: Database, proxy: ChaosProxy, observer: "asyncpg.Connection[Any]"
) -> None:
    task = asyncio.create_task(commit_while(db, proxy, a_request()))
    await eventually(lambda: stored(observer))
    proxy.sever()
    with pytest.raises(CommitOutcomeUnknown):
        await task
    proxy.flow()
    await eventually(lambda: db.in_use == 0)
    assert await db.fetchval(a_request(), QUERY, "SELECT 1") == 1


async def test_a_commit_without_an_answer_is_given_up_before_the_callers_deadline(
    db: Database, proxy: ChaosProxy
) -> None:
    budget = a_request(0.4)
    with pytest.raises(CommitOutcomeUnknown):
        await commit_while(db, proxy, budget)
    assert budget.remaining() > 0, "there is still time to say so"
    await eventually(lambda: db.in_use == 0)
    proxy.flow()
    assert await db.fetchval(a_request(), QUERY, "SELECT 1") == 1


async def test_an_end_without_an_answer_leaves_nothing_in_doubt_where_nothing_was_changed(
    db: Database, proxy: ChaosProxy
) -> None:
    async def read() -> None:
        async with db.transaction(a_request(), BRIEF, reading=True) as transaction:
            await transaction.fetchval("SELECT 1")
            proxy.withhold()

    with pytest.raises(DatabaseTimeout):
        await read()
    proxy.flow()
    await eventually(lambda: db.in_use == 0)


async def test_where_only_reading_was_asked_for_nothing_can_be_changed(
    db: Database, observer: "asyncpg.Connection[Any]"
) -> None:
    async def write() -> None:
        async with db.transaction(a_request(), QUERY, reading=True) as transaction:
            await transaction.execute("INSERT INTO things VALUES (1)")

    with pytest.raises(DatabaseUnavailable):  # as when the primary became a standby
        await write()
    assert await stored(observer) == 0
    assert await db.fetchval(a_request(), QUERY, "SELECT 1") == 1


@pytest.mark.parametrize("number", range(SIZE + 1))
async def test_a_black_holed_cancel_holds_neither_handler_nor_pool(
    db: Database, proxy: ChaosProxy, number: int
) -> None:
    proxy.black_hole = True
    started = time.monotonic()

    async def slow() -> float:
        with pytest.raises(DatabaseTimeout):
            await db.fetch(a_request(), BRIEF, "SELECT pg_sleep(2)")
        return time.monotonic() - started

    took = await asyncio.gather(*(slow() for _ in range(number)))
    assert max(took, default=0.0) < BRIEF.limit + 0.1
    await eventually(lambda: db.in_use == 0, within=2 * LIMITS.clean_up)
    assert db.lost == min(number, SIZE)
    proxy.black_hole = False
    assert await db.fetchval(a_request(), QUERY, "SELECT 1") == 1


async def test_a_frozen_network_holds_nobody_beyond_the_limit(db: Database, proxy: ChaosProxy) -> None:
    proxy.freeze()
    started = time.monotonic()

    async def slow() -> float:
        with pytest.raises(DatabaseTimeout):
            async with db.transaction(a_request(), BRIEF) as transaction:
                await transaction.execute("INSERT INTO things VALUES (1)")
        return time.monotonic() - started

    took = await asyncio.gather(*(slow() for _ in range(SIZE * 3)))
    assert BRIEF.limit - 0.001 <= min(took)
    assert max(took) < BRIEF.limit + 0.1
    proxy.flow()
    await eventually(lambda: db.in_use == 0, within=2 * LIMITS.clean_up)
    assert await db.fetchval(a_request(), QUERY, "SELECT 1") == 1


async def test_a_severed_connection_is_replaced(db: Database, proxy: ChaosProxy) -> None:
    before = proxy.accepted
    proxy.sever()
    await eventually(lambda: db.lost == SIZE)
    assert await db.fetchval(a_request(), QUERY, "SELECT 1") == 1
    assert proxy.accepted > before
