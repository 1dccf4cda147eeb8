"""The request role sees and touches the tenants of its transaction only, whatever a statement forgets."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from jobs_store.errors import JobNotFound
from jobs_store.identifiers import TenantId
from tests.integration.store.locks import Connection, superuser
from tests.store import TENANT, Store, acceptance_of, policy_of, time_enough

pytestmark = pytest.mark.every_postgres

OTHER = TenantId("zeta")
NOT_TENANTS = {"lanes", "lane_closures", "retention_turn"}
"""Tables without a tenant's data."""
REFUSED = (asyncpg.InsufficientPrivilegeError,)


@asynccontextmanager
async def request_role(store: Store, tenants: str | None) -> AsyncIterator[Connection]:
    """A transaction of the request path, rolled back at the end."""
    connection: Connection = await asyncpg.connect(store.database.request)
    try:
        transaction = connection.transaction()
        await transaction.start()
        if tenants is not None:
            await connection.execute(f"SET LOCAL hourglass.tenants = '{tenants}'")
        yield connection
        await transaction.rollback()
    finally:
        await connection.close()


async def tenant_tables(store: Store) -> list[str]:
    """Every table with rows of tenants, partitions left out."""
    async with superuser(store) as connection:
        rows = await connection.fetch(
            "SELECT relname FROM pg_class WHERE relnamespace = 'hourglass'::regnamespace "
            "AND relkind IN ('r', 'p') AND NOT relispartition ORDER BY relname"
        )
    return [row["relname"] for row in rows if row["relname"] not in NOT_TENANTS | {"schema_migrations"}]


async def fill(store: Store) -> None:
    """A finished and a queued job for each of two tenants."""
    for tenant in (TENANT, OTHER):
        await store.tenant(tenant)
        await store.create(tenant)
        run = await store.claim_one()
        await store.start(run)
        await store.runs.finish([acceptance_of(run)], budget=time_enough())
    for tenant in (TENANT, OTHER):
        await store.create(tenant)


async def test_every_tenants_table_is_under_row_level_security(store: Store) -> None:
    async with superuser(store) as connection:
        unguarded = await connection.fetch(
            "SELECT relname FROM pg_class WHERE relnamespace = 'hourglass'::regnamespace "
            "AND relkind IN ('r', 'p') AND NOT relispartition "
            "AND NOT (relrowsecurity AND relforcerowsecurity)"
        )
    assert NOT_TENANTS >= {row["relname"] for row in unguarded} - {"schema_migrations"}


async def test_a_forgotten_where_shows_no_other_tenant(store: Store) -> None:
    await fill(store)
    async with request_role(store, TENANT) as connection:
        for table in await tenant_tables(store):
            seen = await connection.fetch(f"SELECT DISTINCT tenant_id FROM hourglass.{table}")
            assert {row["tenant_id"] for row in seen} <= {TENANT}, table
        assert 1 == await connection.fetchval("SELECT count(*) FROM hourglass.jobs")


async def test_a_forgotten_where_shows_no_other_tenant_in_the_adapters_own_transaction(store: Store) -> None:
    await fill(store)
    for reading in (True, False):
        async with store.request.transaction(
            time_enough(), policy_of("list_jobs"), tenants=[TENANT], reading=reading
        ) as transaction:
            assert "hourglass_request" == await transaction.fetchval("SELECT current_user")
            for table in await tenant_tables(store):
                seen = await transaction.fetch(f"SELECT tenant_id FROM hourglass.{table}")
                assert {row["tenant_id"] for row in seen} <= {TENANT}, table
            assert 1 == await transaction.fetchval("SELECT count(*) FROM hourglass.jobs")


@pytest.mark.parametrize("tenants", [None, "", "nobody", "acm", "acme-2"])
async def test_without_tenants_nothing_is_seen(store: Store, tenants: str | None) -> None:
    await fill(store)
    async with request_role(store, tenants) as connection:
        for table in await tenant_tables(store):
            assert 0 == await connection.fetchval(f"SELECT count(*) FROM hourglass.{table}"), table


async def test_the_tenants_of_one_transaction_are_gone_in_the_next(store: Store) -> None:
    await fill(store)
    connection: Connection = await asyncpg.connect(store.database.request)
    try:
        async with connection.transaction():
            await connection.execute("SET LOCAL hourglass.tenants = 'acme,zeta'")
            assert 2 == await connection.fetchval("SELECT count(*) FROM hourglass.jobs")
        assert 0 == await connection.fetchval("SELECT count(*) FROM hourglass.jobs")
    finally:
        await connection.close()


async def test_a_forgotten_where_changes_no_other_tenant(store: Store) -> None:
    await fill(store)
    async with request_role(store, TENANT) as connection:
        assert "UPDATE 1" == await connection.execute("UPDATE hourglass.tenant_funds SET funded = funded")
        assert "DELETE 1" == await connection.execute("DELETE FROM hourglass.jobs")
        with pytest.raises(REFUSED):
            await connection.execute("INSERT INTO hourglass.tenants VALUES ('other', 'Other')")


async def test_nobody_reaches_a_partition_past_its_parent(store: Store) -> None:
    async with superuser(store) as connection:
        partition = await connection.fetchval(
            "SELECT relname FROM pg_class WHERE relispartition AND relname LIKE 'job\\_facts\\_%' LIMIT 1"
        )
    for dsn in (store.database.request, store.database.worker, store.database.readonly):
        connection = await asyncpg.connect(dsn)
        try:
            with pytest.raises(REFUSED):
                await connection.fetch(f"SELECT FROM hourglass.{partition}")
        finally:
            await connection.close()


async def test_the_read_only_role_sees_all_and_changes_nothing(store: Store) -> None:
    await fill(store)
    connection: Connection = await asyncpg.connect(store.database.readonly)
    try:
        assert 2 == await connection.fetchval("SELECT count(*) FROM hourglass.jobs")
        with pytest.raises((*REFUSED, asyncpg.ReadOnlySQLTransactionError)):
            await connection.execute("DELETE FROM hourglass.jobs")
    finally:
        await connection.close()


async def test_another_tenants_job_reads_like_one_that_never_was(store: Store) -> None:
    await fill(store)
    async with superuser(store) as connection:
        job_id = await connection.fetchval("SELECT id FROM hourglass.jobs WHERE tenant_id = $1", OTHER)
    for read in (store.reader.get, store.reader.position):
        with pytest.raises(JobNotFound):
            await read(TENANT, job_id, budget=time_enough())
