"""What operators' statements read over a crowded database: bounded, whatever else there is.

Each runs as the role that it is for, with the plan that this role keeps.
"""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime

import asyncpg
import pytest

from jobs_store.job_search import LOOKED_AT
from jobs_store.lanes import DEEPEST_COUNT, GROUPS_LOOKED_AT
from tests.integration.store.plans import Plan, plan_of
from tests.integration.store.test_plans import (
    BATCH,
    FIRST,
    RUNNING,
    TENANT,
    connected,
    fill,
    require_little_read,
    require_one_row_a_look_up,
)
from tests.postgres import TestDatabase, TestServer

pytestmark = [pytest.mark.faults, pytest.mark.timeout(180)]

LONG_AGO, FAR_OFF = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
FAILED, HELD = 3_000, 500
OF_ALL = ("", FIRST, None)
OF_ONE = (TENANT, FIRST, TENANT)
ANYTHING = (None, None, None, None, None)
NOTHING = ("simulated/none", "MAX_ATTEMPTS", LONG_AGO, FAR_OFF, FAR_OFF)
EVERYTHING = ("simulated/fast", None, LONG_AGO, FAR_OFF, FAR_OFF)


@pytest.fixture(scope="module")
def crowd(postgres_server: TestServer) -> Iterator[TestDatabase]:
    """A database with very many jobs, a few of them failed or held, for all tests of this module."""
    with asyncio.Runner() as runner:
        context = postgres_server.database()
        database = runner.run(context.__aenter__())
        try:
            runner.run(fill(database))
            runner.run(spoil(database))
            yield database
        finally:
            runner.run(context.__aexit__(None, None, None))


async def spoil(database: TestDatabase) -> None:
    """Some jobs of every tenant failed, and some that ran are held."""
    async with connected(database.owner) as connection:
        await connection.execute(
            f"""
            UPDATE hourglass.finished_jobs d SET state = 'FAILED', state_cause = 'PERMANENT_ERROR'
            FROM (SELECT tenant_id, id FROM hourglass.finished_jobs ORDER BY md5(id::text) LIMIT {FAILED}) bad
            WHERE d.tenant_id = bad.tenant_id AND d.id = bad.id;
            UPDATE hourglass.jobs j
            SET state = 'HELD', state_cause = 'UNKNOWN_OUTCOME', lease_until = NULL, worker_id = NULL,
                worker_address = NULL, claim_time = NULL, send_time = NULL,
                hold_until = now() + interval '1 h'
            FROM (SELECT tenant_id, id FROM hourglass.jobs WHERE state = 'RUNNING'
                  ORDER BY md5(id::text) LIMIT {HELD}) bad
            WHERE j.tenant_id = bad.tenant_id AND j.id = bad.id
            """
        )


async def search(
    crowd: TestDatabase, name: str, where: tuple[object, ...], wanted: tuple[object, ...]
) -> Plan:
    return await plan_of(crowd.worker, name, *where, *wanted, LOOKED_AT, BATCH)


@pytest.mark.parametrize("where", [OF_ALL, OF_ONE], ids=["all", "one"])
@pytest.mark.parametrize("wanted", [ANYTHING, NOTHING, EVERYTHING], ids=["any", "nothing", "everything"])
async def test_failed_jobs_are_found_among_the_failed_ones(
    crowd: TestDatabase, where: tuple[object, ...], wanted: tuple[object, ...]
) -> None:
    plan = await search(crowd, "find_failed_jobs", where, wanted)
    assert {True} == {"pkey" not in index for index in plan.indexes("finished_jobs")}, plan.text
    require_little_read(plan, most=LOOKED_AT)


@pytest.mark.parametrize("where", [OF_ALL, OF_ONE], ids=["all", "one"])
@pytest.mark.parametrize("wanted", [ANYTHING, NOTHING, EVERYTHING], ids=["any", "nothing", "everything"])
async def test_held_jobs_are_found_among_the_held_ones(
    crowd: TestDatabase, where: tuple[object, ...], wanted: tuple[object, ...]
) -> None:
    plan = await search(crowd, "find_held_jobs", where, wanted)
    assert {"jobs_held_index"} == plan.indexes("jobs")
    require_little_read(plan, most=LOOKED_AT)


@pytest.mark.parametrize("where", [OF_ALL, OF_ONE], ids=["all", "one"])
@pytest.mark.parametrize("wanted", [ANYTHING, NOTHING, EVERYTHING], ids=["any", "nothing", "everything"])
async def test_unfinished_jobs_are_found_a_page_at_a_time(
    crowd: TestDatabase, where: tuple[object, ...], wanted: tuple[object, ...]
) -> None:
    plan = await search(crowd, "find_unfinished_jobs", where, wanted)
    assert {"jobs_pkey"} == plan.indexes("jobs")
    require_little_read(plan, most=LOOKED_AT)


async def some_failed(crowd: TestDatabase) -> list[asyncpg.Record]:
    async with connected(crowd.owner) as connection:
        return await connection.fetch(
            "SELECT tenant_id, id FROM hourglass.finished_jobs WHERE state = 'FAILED' AND tenant_id = $1"
            " ORDER BY id LIMIT $2",
            TENANT,
            BATCH,
        )


async def test_named_jobs_are_looked_up_one_by_one(crowd: TestDatabase) -> None:
    ids = [row["id"] for row in await some_failed(crowd)]
    assert ids
    plan = await plan_of(crowd.worker, "find_listed_jobs", TENANT, ids, None, None, None, None)
    require_little_read(plan, most=BATCH)
    for relation in ("job_facts", "finished_jobs"):
        require_one_row_a_look_up(plan, relation)


async def test_what_decisions_depend_on_is_looked_up_one_by_one(crowd: TestDatabase) -> None:
    failed = await some_failed(crowd)
    columns = [[row["tenant_id"] for row in failed], [row["id"] for row in failed], ["r"] * len(failed)]
    plan = await plan_of(crowd.worker, "foresee_decisions", *columns)
    require_little_read(plan, most=2 * BATCH)
    for relation in ("job_facts", "finished_jobs", "attempts"):
        require_one_row_a_look_up(plan, relation)


async def test_a_page_of_lanes_counts_no_further_than_it_says(crowd: TestDatabase) -> None:
    plan = await plan_of(crowd.worker, "list_lanes", "", BATCH, DEEPEST_COUNT, GROUPS_LOOKED_AT)
    assert {"jobs_claim_index"} == plan.indexes("jobs")
    require_little_read(plan, most=DEEPEST_COUNT)
    assert sum(node.read for node in plan.scans("jobs")) <= DEEPEST_COUNT + 100 + 10, plan.text


async def test_a_page_of_tenants_reads_a_page(crowd: TestDatabase) -> None:
    plan = await plan_of(crowd.worker, "list_tenants", TENANT, 10)
    require_little_read(plan, most=100)


async def test_workers_are_found_among_the_running_jobs(crowd: TestDatabase) -> None:
    plan = await plan_of(crowd.worker, "list_workers", "", 50)
    assert {"jobs_running_index"} == plan.indexes("jobs")
    require_little_read(plan, most=RUNNING)
