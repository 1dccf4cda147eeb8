"""Settles the calls that their own server did not: it was killed, or the database was away for too long."""

from budget.core import Budget
from budget.postgres import Database
from jobs_store.calls import Settlement, settle_calls
from jobs_store.creation import PolicyOf
from jobs_store.job_metrics import JobMetrics
from jobs_store.statements import statement

CALL_GRACE = 30.0
"""Seconds after a call's deadline in which its own server may still settle it, and knows better."""


class CallReaping:
    """One page at a time, as the worker role. Nothing is captured: nobody knows what was delivered."""

    def __init__(
        self,
        database: Database,
        policy_of: PolicyOf,
        *,
        grace: float,
        page_size: int,
        metrics: JobMetrics | None = None,
    ) -> None:
        self._database = database
        self._policy_of = policy_of
        self._grace = grace
        self._page_size = page_size
        self._metrics = metrics or JobMetrics()

    async def settle_overdue(self, *, budget: Budget) -> int:
        """Settles a page of calls whose deadline lies `grace` seconds back; answers how many."""
        policy = self._policy_of("settle_overdue_calls")
        async with self._database.transaction(budget, policy) as transaction:
            rows = await transaction.fetch(statement("find_unsettled_calls"), self._page_size, self._grace)
            overdue = [
                Settlement(tenant=row["tenant_id"], call_id=row["id"], end=None)
                for row in sorted(rows, key=lambda row: (row["tenant_id"], row["id"]))
            ]
            settled = await settle_calls(transaction, overdue) if overdue else {}
        for settlement in overdue:
            if settlement.call_id in settled:
                self._metrics.settled(settlement, settled[settlement.call_id])
        return len(settled)
