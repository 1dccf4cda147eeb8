"""All tenants at once, as the worker role: what operators look at and decide beyond a single tenant.

What is decided about a job, and all of its money, stays with the request role and its tenant.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from budget.core import Budget
from budget.postgres import Database, Record, Transaction
from jobs_store.creation import PolicyOf
from jobs_store.errors import OverviewNotConfigured
from jobs_store.statements import statement


class Overview:
    """A database opened as the worker role; None where a process has none.

    Every method raises OverviewNotConfigured without one.
    """

    def __init__(self, database: Database | None, policy_of: PolicyOf) -> None:
        self._database = database
        self._policy_of = policy_of

    async def read(self, name: str, *arguments: object, budget: Budget) -> Sequence[Record]:
        """What one statement answers; it can change nothing."""
        async with self._transaction(name, budget, reading=True) as transaction:
            return await transaction.fetch(statement(name), *arguments)

    def change(self, name: str, budget: Budget) -> AbstractAsyncContextManager[Transaction]:
        """A transaction under the policy of this name."""
        return self._transaction(name, budget, reading=False)

    def _transaction(
        self, name: str, budget: Budget, *, reading: bool
    ) -> AbstractAsyncContextManager[Transaction]:
        if self._database is None:
            raise OverviewNotConfigured
        return self._database.transaction(budget, self._policy_of(name), reading=reading)
