"""Claims under churn: never more than was asked for, whatever the statistics say."""

import asyncio
from pathlib import Path

import asyncpg
import pytest

from jobs_store.identifiers import TenantId
from jobs_store.new_job import SPEC_VERSION
from jobs_store.statements import statement
from tests.integration.store.locks import superuser
from tests.store import LANE, LEASE, Store

pytestmark = [pytest.mark.faults, pytest.mark.timeout(120)]

ROUNDS, CLAIMERS, LIMIT = 10_000, 4, 10
TENANTS = tuple(TenantId(name) for name in ("a", "b", "c", "d"))
JOBS = 15
CHURN = Path(__file__).with_name("churn.sql")


async def churn(store: Store, claimer: int) -> None:
    """One claimer's share of the rounds, inside the server: a claim, its jobs go back, and again."""
    connection = await asyncpg.connect(store.database.owner)
    try:
        await connection.execute("SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off")
        worker = f"worker-{claimer + 1}"
        start = TENANTS[claimer % len(TENANTS)]
        await connection.execute(
            "CALL hourglass.churn($1, $2, $3, $4, 'worker:1', $5, $6, 100, 0, 1, $7)",
            *([LANE], SPEC_VERSION, LIMIT, worker, LEASE, start, ROUNDS // CLAIMERS),
        )
    finally:
        await connection.close()


@pytest.mark.scenario("C5")
async def test_ten_thousand_claims_under_churn_never_bring_more_than_they_asked_for(
    busy_store: Store,
) -> None:
    """The planner believes that the table is empty, and nobody tells it better."""
    async with superuser(busy_store) as connection:
        await connection.execute(
            "ANALYZE hourglass.jobs;"
            "ALTER TABLE hourglass.jobs SET (autovacuum_analyze_threshold = 1000000000);"
            "CREATE TABLE hourglass.churned (worker text PRIMARY KEY, rounds integer, jobs integer)"
        )
        await connection.execute(
            "INSERT INTO hourglass.churned SELECT 'worker-' || n, 0, 0 FROM generate_series(1, $1::int) n",
            CLAIMERS,
        )
        await connection.execute(CHURN.read_text().replace(":claim", statement("claim_jobs")))
        for number, tenant in enumerate(TENANTS):
            await busy_store.tenant(tenant, weight=1 + number)
            await asyncio.gather(*(busy_store.create(tenant, priority=n % 3) for n in range(JOBS)))
        await asyncio.gather(*(churn(busy_store, claimer) for claimer in range(CLAIMERS)))
        done = await connection.fetchrow(
            "SELECT sum(rounds) AS rounds, sum(jobs) AS jobs FROM hourglass.churned"
        )
        left = await connection.fetchval("SELECT count(*) FROM hourglass.jobs WHERE state = 'QUEUED'")
    assert done is not None
    assert (ROUNDS, JOBS * len(TENANTS)) == (done["rounds"], left)
    assert ROUNDS < done["jobs"] <= ROUNDS * LIMIT
