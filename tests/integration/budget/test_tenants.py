"""The tenants of a transaction, as the server sees them."""

from budget.core import Budget
from budget.policy import Policy
from budget.postgres import Database
from tests.postgres import TestDatabase

READ = Policy(dependency="postgres", method="read", limit=5.0)
VISIBLE = "SELECT current_setting('hourglass.tenants', true)"


async def test_what_one_transaction_may_see_is_gone_in_the_next(empty_database: TestDatabase) -> None:
    budget = Budget.for_work(10.0)
    database = await Database.open(empty_database.owner, budget=budget, size=1, application_name="under-test")
    async with database.transaction(budget, READ, tenants=("acme", "beta")) as transaction:
        inside = await transaction.fetchval(VISIBLE)
    async with database.transaction(budget, READ) as transaction:
        after = await transaction.fetchval(VISIBLE)
    await database.close(budget)

    assert "acme,beta" == inside
    assert not after
