"""Rolling deploys: this release runs on the schema of the next one, whose first step only adds."""

import hashlib
from decimal import Decimal
from importlib.resources import files

import asyncpg
import pytest

from jobs_store.identifiers import START
from jobs_store.runs import Claimed
from jobs_store.states import JobState
from migrations.files import Migration, load
from migrations.runner import migrate
from tests.postgres import TestDatabase
from tests.store import (
    OVER,
    TENANT,
    Store,
    acceptance_of,
    decision_about,
    deltas_of,
    hold_of,
    open_store,
    release_of,
    time_enough,
    token_of,
)

pytestmark = pytest.mark.every_postgres

# The worst that an expand step may do: each table gets a column of every name that others have. Names without
# their table are ambiguous then, and a `*` brings what nobody asked for.
EXPAND = """
DO $$
DECLARE
    missing record;
BEGIN
    FOR missing IN
        SELECT t.oid::regclass AS relation, n.attname
        FROM pg_class t
        CROSS JOIN (
            SELECT DISTINCT a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
            WHERE c.relnamespace = 'hourglass'::regnamespace AND c.relkind IN ('r', 'p') AND a.attnum > 0
        ) n
        WHERE t.relnamespace = 'hourglass'::regnamespace AND t.relkind IN ('r', 'p') AND NOT t.relispartition
          AND NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = t.oid AND a.attname = n.attname)
    LOOP
        EXECUTE format('ALTER TABLE %s ADD COLUMN %I text', missing.relation, missing.attname);
    END LOOP;
END
$$;
CREATE TABLE hourglass.something_new (tenant_id text PRIMARY KEY, added text NOT NULL DEFAULT '');
CREATE INDEX jobs_something_new_index ON hourglass.jobs (tenant_id, update_time);
"""


async def expand(database: TestDatabase) -> None:
    """Apply what the next release begins with, on top of all that is there."""
    known = load()
    step = Migration(
        version=len(known) + 1,
        name="expand",
        sql=EXPAND,
        checksum=hashlib.sha256(EXPAND.encode()).hexdigest(),
    )
    assert (step,) == await migrate(database.owner, budget=time_enough(), migrations=(*known, step))


async def test_every_statement_means_what_it_meant_after_columns_were_added(database: TestDatabase) -> None:
    """The same columns come back, and no name has become ambiguous."""
    connection = await asyncpg.connect(database.owner)
    try:
        before = await meanings(connection)
        await expand(database)
        assert before == await meanings(connection)
    finally:
        await connection.close()
    assert "claim_jobs" in before


async def meanings(connection: "asyncpg.Connection[asyncpg.Record]") -> dict[str, list[str]]:
    """What each statement takes and gives, or why it cannot be run."""
    statements = {
        entry.name.removesuffix(".sql"): entry.read_text()
        for entry in files("jobs_store.statements").iterdir()
        if entry.name.endswith(".sql")
    }
    return {name: await meaning(connection, sql) for name, sql in statements.items()}


async def meaning(connection: "asyncpg.Connection[asyncpg.Record]", sql: str) -> list[str]:
    try:
        prepared = await connection.prepare(sql)
    except asyncpg.PostgresError as error:
        return [str(error)]
    takes = [parameter.name for parameter in prepared.get_parameters()]
    return [*takes, *(f"{attribute.name} {attribute.type.name}" for attribute in prepared.get_attributes())]


async def test_this_release_runs_on_a_schema_to_which_the_next_one_has_added(database: TestDatabase) -> None:
    """While it runs: its kept plans meet the new columns too."""
    async with open_store(database) as store:
        await store.tenant()
        await every_way_through(store)
        await expand(database)
        await every_way_through(store)
    async with open_store(database) as store:
        await every_way_through(store)


async def every_way_through(store: Store) -> None:
    """Jobs in each state, and each statement that brings them there or reads them."""
    succeeded = await store.succeeded()
    await store.decisions.erase(decision_about(succeeded.job_id), budget=time_enough())
    failed = await store.failed()
    await store.decisions.retry(decision_about(failed.job_id), budget=time_enough())
    (again,) = await store.claim()
    await store.runs.requeue([release_of(again)], budget=time_enough())
    await store.cancellation.cancel(TENANT, failed.job_id, principal="ada", reason="", budget=time_enough())
    held = await store.held()
    await store.runs.renew([token_of(held)], lease=60.0, budget=time_enough())
    await store.runs.finish([acceptance_of(held)], budget=time_enough())
    lost = await store.running(lease=OVER)
    await store.runs.append([deltas_of(lost, "a")], budget=time_enough())
    assert 1 == (await store.reaper.reap(budget=time_enough())).taken_over
    (taken,) = await store.claim()
    await store.start(taken)
    await store.runs.requeue([hold_of(taken)], budget=time_enough())
    await store.cancellation.cancel(TENANT, taken.job_id, principal="ada", reason="", budget=time_enough())
    assert {JobState.SUCCEEDED, JobState.CANCELLED} == {
        await state_of(store, run) for run in (succeeded, failed, held, taken)
    }
    tenant = await store.tenants.get(TENANT, budget=time_enough())
    assert (0, 0, Decimal(0)) == (tenant.running, tenant.queued, tenant.reserved)


async def state_of(store: Store, run: Claimed) -> JobState:
    """Its state, after all of it was read."""
    detail = await store.reader.get(
        TENANT, run.job_id, budget=time_enough(), with_attempts=True, with_content=True
    )
    assert detail.attempts
    assert await store.reader.events(TENANT, run.job_id, after=START, limit=100, budget=time_enough())
    return detail.job.state
