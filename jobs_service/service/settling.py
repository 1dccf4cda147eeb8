"""Settlements of short calls: each is seen through, also when the request that it belongs to is over.

A caller who leaves cancels its request; the money of its call has to be put right all the same. So each
settlement is a task of its own, with a budget of its own, and this owns it until it has ended.
"""

import asyncio
from dataclasses import replace
from decimal import Decimal

import structlog

from budget.core import Budget
from budget.errors import BudgetError
from budget.ledger import Ledger
from budget.spend import reason_of
from jobs_store.calls import CallStore, Settlement
from jobs_store.pacing import Backoff

_log = structlog.stdlib.get_logger("hourglass.calls")


class Settling:
    """Settles calls, again after an error while its time lasts. `limit`: seconds for one settlement."""

    def __init__(self, calls: CallStore, *, backoff: Backoff, limit: float) -> None:
        self._calls = calls
        self._backoff = backoff
        self._limit = limit
        self._tasks: set[asyncio.Task[Decimal | None]] = set()

    async def settle(self, settlement: Settlement, *, ledger: Ledger) -> Decimal | None:
        """Dollars that were captured; None when it was settled before. What it spends goes into `ledger`.

        A cancel ends the wait and not the settlement. BudgetError when the reaper will have to do it.
        """
        budget = replace(Budget.for_work(self._limit), ledger=ledger)
        task = asyncio.create_task(
            self._persist(settlement, budget=budget), name=f"settle {settlement.call_id}"
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    async def run(self, stop: asyncio.Event) -> None:
        """A background loop: at the end it waits for the settlements that are still on their way."""
        await stop.wait()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _persist(self, settlement: Settlement, *, budget: Budget) -> Decimal | None:
        """Trying again is safe whatever became of the last try: a call is settled once."""
        failures = 0
        while True:
            try:
                return await self._calls.settle(settlement, budget=budget)
            except BudgetError as error:
                failures += 1
                pause = self._backoff.pause(failures)
                if budget.remaining() <= pause:
                    _left_to_the_reaper(settlement, error)
                    raise
                await asyncio.sleep(pause)


def _left_to_the_reaper(settlement: Settlement, error: BudgetError) -> None:
    _log.warning(
        "a call could not be settled and is left to the reaper",
        tenant=settlement.tenant,
        call=str(settlement.call_id),
        outcome=settlement.end.outcome if settlement.end else "UNKNOWN",
        reason=reason_of(error),
    )
