"""The tenant that tries things out."""

from decimal import Decimal

from budget.core import Budget
from jobs_store.identifiers import TenantId
from launcher.seed import DEMO_TENANT, FUNDS, seed_tenant
from tests.postgres import TestDatabase
from tests.stacks import execute, funds

OTHER = TenantId("other")


async def seed(database: TestDatabase, tenant: TenantId = DEMO_TENANT) -> None:
    await seed_tenant(database.request, tenant, budget=Budget.for_work(10))


async def test_the_tenant_is_made_with_funds_once_however_often_the_stack_starts(
    database: TestDatabase,
) -> None:
    await seed(database)
    await seed(database)
    has = await funds(database)
    assert (FUNDS, FUNDS, Decimal(0)) == (has["funded"], has["available"], has["captured"])


async def test_funds_that_run_low_are_filled_up(database: TestDatabase) -> None:
    await seed(database)
    await spend_most(database)
    await seed(database)
    has = await funds(database)
    assert (Decimal(190), FUNDS) == (has["funded"], has["available"])


async def test_another_tenant_can_be_seeded_beside_it(database: TestDatabase) -> None:
    await seed(database)
    await seed(database, OTHER)
    assert FUNDS == (await funds(database, "other"))["available"]


async def spend_most(database: TestDatabase) -> None:
    """As if jobs had cost 90 dollars."""
    await execute(
        database,
        "UPDATE hourglass.tenant_funds SET available = available - 90, captured = captured + 90",
    )
