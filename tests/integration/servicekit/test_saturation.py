"""How near a process is to its limits, as it is scraped."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from budget.core import Budget
from budget.errors import DatabaseTimeout, PoolTimeout
from budget.policy import Policy
from budget.postgres import Database
from servicekit.drain import Drain, Scope
from servicekit.lifecycle import background_loops
from servicekit.saturation import LoopWatch, observe_databases, observe_requests
from tests.integration.servicekit.metrics import counted, points
from tests.postgres import TestDatabase
from tests.waiting import eventually

QUERY = Policy(dependency="postgres", method="query", limit=5.0)
BRIEF = Policy(dependency="postgres", method="query", limit=0.05)


@pytest.fixture
def reader() -> InMemoryMetricReader:
    return InMemoryMetricReader()


@pytest.fixture
async def db(empty_database: TestDatabase, reader: InMemoryMetricReader) -> AsyncIterator[Database]:
    """Two connections that are observed."""
    opened = await Database.open(
        empty_database.owner, budget=Budget.for_work(10), size=2, application_name="under-test"
    )
    observe_databases({"request": opened}, MeterProvider([reader]).get_meter("t"))
    yield opened
    await opened.close(Budget.for_work(5))


async def test_a_pool_shows_who_holds_its_connections_and_who_waits(
    db: Database, reader: InMemoryMetricReader
) -> None:
    async def hold(release: asyncio.Event) -> None:
        async with db.transaction(Budget.for_work(5), QUERY):
            await release.wait()

    release = asyncio.Event()
    holders = [asyncio.create_task(hold(release)) for _ in range(2)]
    await eventually(lambda: db.in_use == 2)
    waiting = asyncio.create_task(db.fetchval(Budget.for_work(5), QUERY, "SELECT 1"))
    await eventually(lambda: db.waiting)
    state = "db_client_connection_state"
    assert 2 == counted(reader, "db.client.connection.count", **{state: "used"})
    assert 0 == counted(reader, "db.client.connection.count", **{state: "idle"})
    assert 1 == counted(reader, "db.client.connection.pending_requests")
    assert 2 == counted(reader, "db.client.connection.max")
    release.set()
    await asyncio.gather(*holders, waiting)
    assert 0 == counted(reader, "db.client.connection.pending_requests")
    assert 2 == counted(reader, "db.client.connection.count", **{state: "idle"})


async def test_a_pool_counts_waits_and_what_was_dropped_in_mid_work(
    db: Database, reader: InMemoryMetricReader
) -> None:
    release = asyncio.Event()

    async def hold() -> None:
        async with db.transaction(Budget.for_work(5), QUERY):
            await release.wait()

    holders = [asyncio.create_task(hold()) for _ in range(2)]
    await eventually(lambda: db.in_use == 2)
    with pytest.raises(PoolTimeout):
        await db.fetchval(Budget.for_work(5), BRIEF, "SELECT 1")
    assert 1 == counted(reader, "hourglass.database.waits")
    assert 0.04 <= counted(reader, "hourglass.database.waited") < 1
    holders[0].cancel()
    await asyncio.wait({holders[0]})
    release.set()
    await holders[1]
    await eventually(lambda: db.in_use == 0)
    assert 1 == counted(reader, "hourglass.database.interrupted")
    assert 0 == counted(reader, "hourglass.database.lost")


async def test_queries_that_were_cut_off_are_counted_and_errors_are_not(
    db: Database, reader: InMemoryMetricReader
) -> None:
    with pytest.raises(DatabaseTimeout):
        await db.fetchval(Budget.for_work(5), BRIEF, "SELECT pg_sleep(5)")
    with pytest.raises(LookupError):
        async with db.transaction(Budget.for_work(5), QUERY):
            raise LookupError
    assert 1 == counted(reader, "hourglass.database.cut_off")
    assert 2 == counted(reader, "hourglass.database.interrupted")


async def test_a_pool_that_was_never_connected_shows_no_connections(reader: InMemoryMetricReader) -> None:
    away = Database("postgresql://nobody@127.0.0.1:1/none", size=3, application_name="under-test")
    observe_databases({"request": away}, MeterProvider([reader]).get_meter("t"))
    assert 0 == counted(reader, "db.client.connection.count")
    assert 3 == counted(reader, "db.client.connection.max")


async def test_what_is_in_flight_is_shown(reader: InMemoryMetricReader) -> None:
    drain = Drain()
    observe_requests(drain, MeterProvider([reader]).get_meter("t"))
    scope = Scope(Budget.for_work(1.0), resumable=False)
    drain.enter(scope)
    assert 1 == counted(reader, "hourglass.server.in_flight")
    drain.leave(scope)
    assert 0 == counted(reader, "hourglass.server.in_flight")


async def test_a_stalled_loop_shows_how_late_it_was(reader: InMemoryMetricReader) -> None:
    watch = LoopWatch(MeterProvider([reader]).get_meter("t"))

    def latest() -> float:
        return max((point.max for point in points(reader, "hourglass.loop.lag")), default=0.0)

    async with background_loops(grace=1.0) as loops:
        loops.start("loop watch", watch.run)
        await eventually(lambda: any(points(reader, "hourglass.loop.lag")))
        time.sleep(0.4)  # noqa: ASYNC251 - the stall
        await eventually(lambda: latest() >= 0.1)
        assert 1 <= counted(reader, "hourglass.loop.tasks")
