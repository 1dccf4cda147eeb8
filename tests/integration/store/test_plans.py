"""What every hot statement reads over a crowded database: as much as it answers, whatever else there is.

Each runs as the role that it is for, with the plan that this role keeps.
"""

import asyncio
import logging
import statistics
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import asyncpg
import pytest

from budget.postgres import Database
from jobs_store.events import EventKind, NewEvent
from jobs_store.identifiers import TenantId
from jobs_store.invariants.paging import next_page
from jobs_store.invariants.registry import INVARIANTS, Scope
from jobs_store.new_job import SPEC_VERSION
from jobs_store.statements import statement
from jobs_store.stored_json import dump
from jobs_store.verification import METHOD, VerificationTerms, given_to
from tests.integration.store.locks import Connection
from tests.integration.store.plans import Plan, plan_of, plan_of_invariant
from tests.postgres import TestDatabase, TestServer
from tests.store import LANE, LEASE, new_job, policy_of, succeeded, time_enough

pytestmark = pytest.mark.timeout(180)

FINISHED, QUEUED, RUNNING = 300_000, 50_000, 2_000
BATCH = 50
TENANT = TenantId("tenant-007")
CROWD = Path(__file__).with_name("crowd.sql")
FIRST, LAST = UUID(int=0), UUID(int=2**128 - 1)
CLAIM = ([LANE], SPEC_VERSION, BATCH, "worker", "worker:1", LEASE, "", 100, 0, 1)
COLD = ("job_facts", "job_payloads", "job_results", "finished_jobs", "attempts", "reservations", "job_events")


@pytest.fixture(scope="module")
def crowd(postgres_server: TestServer) -> Iterator[TestDatabase]:
    """A database with very many jobs, for all tests of this module."""
    with asyncio.Runner() as runner:
        context = postgres_server.database()
        database = runner.run(context.__aenter__())
        try:
            runner.run(fill(database))
            yield database
        finally:
            runner.run(context.__aexit__(None, None, None))


async def fill(database: TestDatabase) -> None:
    sql = CROWD.read_text()
    for name, count in {"finished": FINISHED, "queued": QUEUED, "running": RUNNING}.items():
        sql = sql.replace(f":{name}", str(count))
    connection = await asyncpg.connect(database.owner)
    try:
        await connection.execute(sql)
    finally:
        await connection.close()


@asynccontextmanager
async def connected(dsn: str) -> AsyncIterator[Connection]:
    connection: Connection = await asyncpg.connect(dsn)
    try:
        yield connection
    finally:
        await connection.close()


async def some_jobs(database: TestDatabase, state: str) -> list[asyncpg.Record]:
    """A batch of jobs from all over the table."""
    async with connected(database.owner) as connection:
        return await connection.fetch(
            "SELECT tenant_id, id, run_token, epoch FROM hourglass.jobs WHERE state = $1 "
            "ORDER BY md5(id::text) LIMIT $2",
            state,
            BATCH,
        )


def require_little_read(plan: Plan, *, most: float) -> None:
    """No table is read from end to end, and no scan or sort takes more rows than the answer needs."""
    for node in plan.nodes:
        assert not (node.ran and node.kind == "Seq Scan" and node.relation), plan.text
        assert node.read <= most, plan.text
    assert plan.sorted_rows() <= most, plan.text


def require_one_row_a_look_up(plan: Plan, relation: str) -> None:
    """Every scan of the table finds its row at once, and takes nothing else in hand."""
    scans = [node for node in plan.scans(relation) if node.index]
    assert scans, plan.text
    assert all(node.rows <= 1 and node.removed == 0 for node in scans), plan.text


@pytest.mark.scenario("C1")
async def test_a_claim_reads_what_it_claims(crowd: TestDatabase) -> None:
    plan = await plan_of(crowd.worker, "claim_jobs", *CLAIM)
    assert {"jobs_claim_index", "jobs_pkey"} == plan.indexes("jobs")
    require_little_read(plan, most=4 * BATCH)


@pytest.mark.scenario("C1")
async def test_a_claim_of_one_reads_no_more_for_a_longer_queue(crowd: TestDatabase) -> None:
    one = (*CLAIM[:2], 1, *CLAIM[3:])
    plan = await plan_of(crowd.worker, "claim_jobs", *one)
    probes = sum(node.read for node in plan.scans("jobs") if node.index == "jobs_claim_index")
    assert probes <= 2 * 100 + 1, plan.text


@pytest.mark.scenario("C1")
async def test_a_claim_takes_milliseconds(
    crowd: TestDatabase, record_property: Callable[[str, object], None]
) -> None:
    async with connected(crowd.worker) as connection:
        took = []
        for _ in range(20):
            begun = time.perf_counter()
            async with rolled_back(connection):
                rows = await connection.fetch(statement("claim_jobs"), *CLAIM)
            took.append((time.perf_counter() - begun) * 1000)
            assert BATCH == len(rows)
    median = statistics.median(took)
    record_property("claim_milliseconds", median)
    logging.getLogger(__name__).info("claim of %d over %d queued: median %.1f ms", BATCH, QUEUED, median)


@asynccontextmanager
async def rolled_back(connection: Connection) -> AsyncIterator[None]:
    transaction = connection.transaction()
    await transaction.start()
    yield
    await transaction.rollback()


async def test_a_renewal_finds_its_rows_by_primary_key(crowd: TestDatabase) -> None:
    runs = await some_jobs(crowd, "RUNNING")
    columns = [[run[name] for run in runs] for name in ("tenant_id", "id", "run_token")]
    plan = await plan_of(crowd.worker, "renew_leases", *columns, LEASE)
    assert {"jobs_pkey"} == plan.indexes("jobs")
    require_one_row_a_look_up(plan, "jobs")
    require_little_read(plan, most=BATCH)


@pytest.mark.parametrize("name", ["finish_jobs", "requeue_jobs", "start_attempts", "append_events"])
async def test_a_runs_write_finds_its_rows_by_primary_key(crowd: TestDatabase, name: str) -> None:
    runs = await some_jobs(crowd, "RUNNING")
    plan = await plan_of(
        crowd.worker, name, dump([_write(number, run, name) for number, run in enumerate(runs)])
    )
    assert {"jobs_pkey"} == plan.indexes("jobs")
    require_one_row_a_look_up(plan, "jobs")
    require_little_read(plan, most=8 * BATCH)


def _write(number: int, run: asyncpg.Record, name: str) -> dict[str, object]:
    """One element of the batch that a run's statement reads."""
    fence = {"ordinal": number, "tenant_id": run["tenant_id"], "id": run["id"], "run_token": run["run_token"]}
    event = NewEvent(kind=EventKind.STATE_CHANGED).to_json()
    ending = {
        **fence,
        "by_run": True,
        "first_event": 4,
        "was_sent": False,
        "state": "QUEUED" if name == "requeue_jobs" else "SUCCEEDED",
        "state_cause": "TEST",
        "delay": 0,
        "charge": "0.001",
        "attempt": succeeded().to_json(),
        "events": [event],
    }
    start = {**fence, "event": 3, "attributes": {}}
    append = {**fence, "epoch": run["epoch"], "attempt_number": 1, "first_event": 4, "events": [event]}
    return {"start_attempts": start, "append_events": append}.get(name, ending)


async def test_expired_runs_are_found_among_the_running_ones(crowd: TestDatabase) -> None:
    plan = await plan_of(crowd.worker, "find_expired_runs", 100, SPEC_VERSION)
    assert {"jobs_running_index"} == plan.indexes("jobs")
    require_little_read(plan, most=2 * RUNNING)


async def test_jobs_that_waited_too_long_are_found_by_their_deadline(crowd: TestDatabase) -> None:
    plan = await plan_of(crowd.worker, "find_expired_queued", 100)
    assert {"jobs_queue_deadline_index"} == plan.indexes("jobs")
    require_little_read(plan, most=100)


async def test_expired_holds_are_found_by_their_time(crowd: TestDatabase) -> None:
    plan = await plan_of(crowd.worker, "find_expired_held", 100)
    assert {"jobs_hold_index"} == plan.indexes("jobs")


@pytest.mark.parametrize("model", [None, "fast"])
async def test_a_page_of_a_list_reads_one_page(crowd: TestDatabase, model: str | None) -> None:
    for before in (LAST, await a_finished_job(crowd)):
        plan = await plan_of(
            crowd.request, "list_jobs", TENANT, before, None, model, None, None, BATCH, tenant=TENANT
        )
        assert {"jobs_pkey"} == plan.indexes("jobs")
        require_little_read(plan, most=4 * BATCH)


async def a_finished_job(database: TestDatabase) -> UUID:
    async with connected(database.owner) as connection:
        found: UUID = await connection.fetchval(
            "SELECT id FROM hourglass.finished_jobs WHERE tenant_id = $1 ORDER BY id DESC OFFSET 500 LIMIT 1",
            TENANT,
        )
        return found


@pytest.mark.parametrize(
    "name", ["read_job", "read_position", "read_content", "read_attempts", "read_reservations"]
)
async def test_a_look_up_by_id_reaches_one_partition_of_each_table(crowd: TestDatabase, name: str) -> None:
    job_id = await a_finished_job(crowd)
    plan = await plan_of(crowd.request, name, TENANT, job_id, tenant=TENANT, reading=True)
    require_little_read(plan, most=10)
    for relation in COLD:
        assert len(plan.scans(relation)) <= 1, plan.text


async def test_where_many_jobs_stand_is_read_by_their_keys_alone(crowd: TestDatabase) -> None:
    one = await a_finished_job(crowd)
    plan = await plan_of(crowd.request, "read_positions", [TENANT] * 3, [one, one, LAST], tenant=TENANT)
    assert {"jobs_pkey"} == plan.indexes("jobs")
    require_little_read(plan, most=20)


async def test_events_after_a_cursor_are_read_from_the_cursor(crowd: TestDatabase) -> None:
    job_id = await a_finished_job(crowd)
    plan = await plan_of(crowd.request, "read_events", TENANT, job_id, 0, 100, tenant=TENANT, reading=True)
    (scan,) = plan.scans("job_events")
    assert scan.read <= 100
    assert plan.sorted_rows() == 0


@pytest.mark.parametrize(
    "name",
    [
        "trim_payloads",
        "trim_events",
        "trim_results",
        "trim_attempts",
        "trim_jobs",
        "trim_calls",
        "trim_quotes",
        "trim_audit_log",
    ],
)
async def test_retention_reads_a_page_of_what_is_old(crowd: TestDatabase, name: str) -> None:
    plan = await plan_of(crowd.worker, name, TENANT, 0.0, await a_finished_job(crowd), BATCH)
    require_little_read(plan, most=4 * BATCH)


async def test_a_create_reads_nothing_but_its_tenant(crowd: TestDatabase) -> None:
    plan = await plan_of(crowd.request, "create_job", dump(new_job(TENANT).to_json()), tenant=TENANT)
    require_little_read(plan, most=10)


INVARIANT_PAGE = 500


@pytest.mark.parametrize("name", INVARIANTS)
async def test_an_invariant_reads_its_page(crowd: TestDatabase, name: str) -> None:
    """A page of jobs, all of two tenants, or all that runs: never more of a table, whatever else there is."""
    invariant = INVARIANTS[name]
    arguments = await invariant_page(crowd, invariant.scope)
    plan = await plan_of_invariant(
        crowd.readonly, invariant.sql, *arguments, *given_to(invariant, VerificationTerms())
    )
    most = {Scope.TENANTS: 2 * (FINISHED + QUEUED + RUNNING) / 100, Scope.LANES: RUNNING}
    require_little_read(plan, most=most.get(invariant.scope, 7 * INVARIANT_PAGE))


@pytest.mark.parametrize("name", ["find_page_of_jobs", "find_page_of_unfinished_jobs", "find_page_of_calls"])
async def test_the_end_of_a_page_is_found_by_its_index(crowd: TestDatabase, name: str) -> None:
    begin = (TENANT, await a_finished_job(crowd))
    plan = await plan_of_invariant(crowd.readonly, statement(name), *begin, "z" * 64, LAST, INVARIANT_PAGE)
    require_little_read(plan, most=INVARIANT_PAGE + 20)


async def invariant_page(database: TestDatabase, scope: Scope) -> tuple[object, ...]:
    """What a page from the middle of the table is given."""
    if scope is Scope.TENANTS:
        return ([TENANT, "tenant-008"],)
    begin = (TENANT, await a_finished_job(database))
    opened = await Database.open(database.readonly, budget=time_enough(), size=1, application_name="verify")
    try:
        async with opened.transaction(time_enough(), policy_of(METHOD), reading=True) as transaction:
            await transaction.fetchrow(statement("plan_by_index"))
            bounds = await next_page(transaction, scope, begin, INVARIANT_PAGE, None)
    finally:
        await opened.close(time_enough())
    return bounds.arguments
