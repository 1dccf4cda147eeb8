"""The tenant that tries things out: there, and with money to spend."""

from decimal import Decimal
from typing import Final
from uuid import uuid4

from budget.core import Budget
from budget.policy import Policy
from budget.postgres import Database
from jobs_store.identifiers import TenantId
from jobs_store.tenants import Limits, TenantStore

DEMO_TENANT: Final = TenantId("demo")
FUNDS: Final = Decimal(100)
LEAST_FUNDS: Final = Decimal(50)
ACTOR: Final = "launcher"
LIMIT: Final = 10.0
CLOSE_LIMIT: Final = 2.0


async def seed_tenant(dsn: str, tenant: TenantId, *, budget: Budget) -> None:
    """Make the tenant unless it is there, and fill its funds up to `FUNDS` dollars when they run low.

    dsn: as the request role.
    """
    database = await Database.open(dsn, budget=budget, size=1, application_name="launcher")
    try:
        store = TenantStore(database, _policy)
        await store.create(tenant, display_name="Demo", limits=Limits(), budget=budget)
        available = (await store.get(tenant, budget=budget)).available
        if available < LEAST_FUNDS:
            await _fill_up(store, tenant, FUNDS - available, budget=budget)
    finally:
        await database.close(Budget.for_work(CLOSE_LIMIT))


async def _fill_up(store: TenantStore, tenant: TenantId, amount: Decimal, *, budget: Budget) -> None:
    await store.fund(
        tenant, amount, request_id=str(uuid4()), actor=ACTOR, reason="money to try with", budget=budget
    )


def _policy(statement: str) -> Policy:
    return Policy(dependency="postgres", method=statement, limit=LIMIT)
