"""How quick claims stay beside a tenant with very much to do and beside an old snapshot."""

import logging
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest

from jobs_store.new_job import SPEC_VERSION
from jobs_store.statements import statement
from tests.integration.store.locks import Connection
from tests.postgres import TestDatabase
from tests.store import LEASE
from tests.waiting import eventually

pytestmark = [pytest.mark.faults, pytest.mark.timeout(180)]

_log = logging.getLogger(__name__)
QUEUES = Path(__file__).with_name("queues.sql")
SLOTS = 10
CLAIMS = 150
BALANCED, SKEWED = "simulated/balanced", "simulated/skewed"


@asynccontextmanager
async def connected(dsn: str) -> AsyncIterator[Connection]:
    connection: Connection = await asyncpg.connect(dsn)
    try:
        yield connection
    finally:
        await connection.close()


async def claim(connection: Connection, lane: str, after: str) -> float:
    """Milliseconds of one claim, which is taken back."""
    transaction = connection.transaction()
    await transaction.start()
    begun = time.perf_counter()
    rows = await connection.fetch(
        statement("claim_jobs"), [lane], SPEC_VERSION, SLOTS, "w", "w:1", LEASE, after, 100, 0, 1
    )
    took = time.perf_counter() - begun
    await transaction.rollback()
    assert SLOTS == len(rows)
    return took * 1000


async def claims(connection: Connection, *lanes: str) -> list[float]:
    """The p99 of many claims in each lane, in turns, so that what slows the machine slows all of them."""
    took: dict[str, list[float]] = {lane: [] for lane in lanes}
    for number in range(CLAIMS):
        for lane in lanes:
            took[lane].append(await claim(connection, lane, f"tenant-{number % 100:03}"))
    return [statistics.quantiles(each, n=100)[98] for each in took.values()]


async def ratio(connection: Connection, of: str, to: str) -> float:
    """How much longer claims take in one lane than in another, at the same time."""
    ratios = []
    for _ in range(3):
        took, reference = await claims(connection, of, to)
        ratios.append(took / reference)
    _log.info("p99 in %s, times that in %s: %s", of, to, ratios)
    return statistics.median(ratios)


@pytest.mark.scenario("C2")
async def test_a_tenant_with_thousands_of_jobs_at_its_limit_makes_no_claim_slow(
    database: TestDatabase,
) -> None:
    """12,000 of its jobs wait for its limit, in three priorities, ahead of a hundred other tenants."""
    async with connected(database.owner) as owner:
        await owner.execute(QUEUES.read_text())
    async with connected(database.worker) as worker:
        await claims(worker, BALANCED, SKEWED)
        assert await ratio(worker, SKEWED, BALANCED) < 2.0


# What jobs leave behind in the heap and in the index that a claim steps through. No vacuum removes it while
# the old snapshot lives.
FINISH = """
WITH taken AS (
    SELECT j.tenant_id, j.id FROM hourglass.jobs j WHERE j.lane = 'simulated/balanced' AND j.state = 'QUEUED'
    ORDER BY j.ready_time LIMIT 6000
)
UPDATE hourglass.jobs j
SET state = 'RUNNING', run_token = gen_random_uuid(), worker_id = 'w', worker_address = 'w:1',
    claim_time = now(), lease_until = now()
FROM taken t WHERE j.tenant_id = t.tenant_id AND j.id = t.id
"""
DELETE = "DELETE FROM hourglass.jobs WHERE state = 'RUNNING'"
HELD_MINUTES, JOBS_A_SECOND = 3, 100


@pytest.mark.scenario("D1")
async def test_an_old_snapshot_slows_claims_by_less_than_three_times_and_its_end_mends_it(
    database: TestDatabase,
) -> None:
    """As much as 100 jobs a second leave behind in three minutes of a REPEATABLE READ transaction, in one
    lane. Claims of another, which nobody used, tell what the machine does to both."""
    async with connected(database.owner) as owner, connected(database.worker) as worker:
        await owner.execute(QUEUES.read_text())
        await claims(worker, BALANCED, SKEWED)
        async with connected(database.readonly) as reader:
            await reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            assert await reader.fetchval("SELECT count(*) FROM hourglass.jobs")
            finished = 0
            while finished < HELD_MINUTES * 60 * JOBS_A_SECOND:
                finished += int((await owner.execute(FINISH)).split()[-1])
                await owner.execute(DELETE)
            held = await ratio(worker, BALANCED, SKEWED)

        async def mended() -> bool:
            return await ratio(worker, BALANCED, SKEWED) < 1.5

        await eventually(mended, within=50.0)
    assert held < 3.0
