"""A claim over very many retries that are due at once, and over jobs that only a newer release can run."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from jobs_store.new_job import SPEC_VERSION
from tests.integration.store.plans import Plan, plan_of
from tests.postgres import TestDatabase, TestServer
from tests.store import LANE, LEASE

pytestmark = [pytest.mark.faults, pytest.mark.timeout(120)]

DUE, NEWER = 200_000, 100_000
TENANTS, PRIORITIES, VERSIONS = 10, 3, 2
SLOTS = 50


@pytest.fixture(scope="module")
def crowd(postgres_server: TestServer) -> Iterator[TestDatabase]:
    """A database with all these jobs, whose statistics are from before they were there."""
    with asyncio.Runner() as runner:
        context = postgres_server.database()
        database = runner.run(context.__aenter__())
        try:
            runner.run(fill(database))
            yield database
        finally:
            runner.run(context.__aexit__(None, None, None))


async def fill(database: TestDatabase) -> None:
    sql = Path(__file__).with_name("due_retries.sql").read_text()
    connection = await asyncpg.connect(database.owner)
    try:
        await connection.execute(sql.replace(":due", str(DUE)).replace(":newer", str(NEWER)))
    finally:
        await connection.close()


async def claim_of(database: TestDatabase, slots: int) -> Plan:
    """How a claim is carried out from the first turn on."""
    arguments = ([LANE], SPEC_VERSION, slots, "worker", "worker:1", LEASE, "", 100, 0, 1)
    return await plan_of(database.worker, "claim_jobs", *arguments)


@pytest.mark.scenario("D5", "C5")
@pytest.mark.parametrize("slots", [1, SLOTS])
async def test_retries_that_are_due_are_found_by_index_and_newer_jobs_are_stepped_over(
    crowd: TestDatabase, slots: int
) -> None:
    """What is read grows with what is claimed, not with what waits; old statistics mislead nobody."""
    plan = await claim_of(crowd, slots)
    scans = plan.scans("jobs")
    assert "Seq Scan" not in {node.kind for node in scans}, plan.text
    probes = TENANTS * PRIORITIES * VERSIONS + 2
    candidates = TENANTS * PRIORITIES * slots
    assert sum(node.read for node in scans) <= probes + candidates + 2 * slots, plan.text
    assert slots == next(node.rows for node in scans if node.kind == "ModifyTable"), plan.text
    assert plan.sorted_rows() <= candidates, plan.text
