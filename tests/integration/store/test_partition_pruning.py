"""No statement that may lock a row prunes partitions as it runs: PostgreSQL 18 can crash of both together."""

import pytest

from budget.policy import Policy
from budget.postgres import Database
from tests.store import TENANT, Store, time_enough

pytestmark = pytest.mark.every_postgres

ASK = Policy(dependency="postgres", method="ask", limit=5.0)
SHOW = "SHOW enable_partition_pruning"


def roles(store: Store) -> dict[str, Database]:
    return {"request": store.request, "worker": store.worker}


@pytest.mark.parametrize("role", ["request", "worker"])
async def test_a_statement_by_itself_prunes_nothing_as_it_runs(store: Store, role: str) -> None:
    assert "off" == await roles(store)[role].fetchval(time_enough(), ASK, SHOW)


@pytest.mark.parametrize("role", ["request", "worker"])
async def test_a_transaction_that_may_write_prunes_nothing_as_it_runs(store: Store, role: str) -> None:
    async with roles(store)[role].transaction(time_enough(), ASK, tenants=[TENANT]) as transaction:
        assert "off" == await transaction.fetchval(SHOW)


@pytest.mark.parametrize("role", ["request", "worker"])
async def test_a_transaction_that_only_reads_looks_into_the_partitions_that_it_needs(
    store: Store, role: str
) -> None:
    database = roles(store)[role]
    async with database.transaction(time_enough(), ASK, tenants=[TENANT], reading=True) as transaction:
        assert "on" == await transaction.fetchval(SHOW)
