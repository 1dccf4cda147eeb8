"""WaitJob: until the job is terminal or the time is nearly over; then the job as it is."""

import asyncio

from budget.core import Budget
from budget.errors import BudgetError, BudgetExhausted, DatabaseTimeout
from jobs_service.service.pauses import Pace, Pauses
from jobs_service.service.ports import Positions
from jobs_store.identifiers import JobId, TenantId
from jobs_store.reading import JobDetail, JobReader
from jobs_store.signals import job_changed
from jobs_store.subscriptions import Subscriptions, Wakeup

_LONGEST_LAST_LOOK = 0.4
_LAST_LOOK_SHARE = 0.2


class JobWaiter:
    """Waits for jobs. The store is the truth; a wake-up only shortens the time until the next look.

    After a few looks of its own a call leaves them to the process's timer, which wakes it.
    """

    def __init__(
        self, reader: JobReader, subscriptions: Subscriptions, positions: Positions, pace: Pace
    ) -> None:
        self._reader = reader
        self._subscriptions = subscriptions
        self._positions = positions
        self._pace = pace

    async def wait(
        self,
        tenant: TenantId,
        job_id: JobId,
        *,
        with_content: bool,
        draining: asyncio.Event,
        budget: Budget,
    ) -> JobDetail:
        """The job, terminal or not. JobNotFound; other errors only when not even the first look succeeded.
        That the time is over is the database's doing then: DatabaseTimeout.

        draining: set when the server shuts down; then the job is answered as it is.
        """
        with self._subscriptions.subscribe(job_changed(tenant, job_id)) as wakeup:
            seen = await self._first_look(tenant, job_id, with_content=with_content, budget=budget)
            if not seen.job.state.terminal:
                await self._until_terminal(tenant, job_id, wakeup, draining, budget=budget)
                seen = await self._latest(seen, with_content=with_content, budget=budget)
            return seen

    async def _first_look(
        self, tenant: TenantId, job_id: JobId, *, with_content: bool, budget: Budget
    ) -> JobDetail:
        try:
            return await self._read(tenant, job_id, with_content=with_content, budget=budget)
        except BudgetExhausted as error:
            raise DatabaseTimeout(
                dependency=error.dependency, method=error.method, limit=budget.initial
            ) from error

    async def _until_terminal(
        self, tenant: TenantId, job_id: JobId, wakeup: Wakeup, draining: asyncio.Event, *, budget: Budget
    ) -> None:
        pauses = Pauses(self._pace)
        last_look = min(_LONGEST_LAST_LOOK, _LAST_LOOK_SHARE * budget.initial)
        while not draining.is_set() and (left := budget.spendable() - last_look) > 0:
            timed = pauses.settled and self._positions.ticking
            woken = await wakeup.wait(budget.child(left if timed else min(pauses.take(), left)))
            if (woken or not timed) and await self._is_terminal(tenant, job_id, budget=budget):
                return

    async def _is_terminal(self, tenant: TenantId, job_id: JobId, *, budget: Budget) -> bool:
        try:
            position = await self._reader.position(tenant, job_id, budget=budget)
        except BudgetError:  # the database is away or slow: the next look may succeed
            return False
        return position.state.terminal

    async def _latest(self, seen: JobDetail, *, with_content: bool, budget: Budget) -> JobDetail:
        try:
            return await self._read(
                seen.job.tenant, seen.job.job_id, with_content=with_content, budget=budget
            )
        except BudgetError:
            return seen

    async def _read(
        self, tenant: TenantId, job_id: JobId, *, with_content: bool, budget: Budget
    ) -> JobDetail:
        return await self._reader.get(tenant, job_id, with_content=with_content, budget=budget)
