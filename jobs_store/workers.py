"""The workers that run jobs, as their leases show them."""

from dataclasses import dataclass
from datetime import datetime

from budget.core import Budget
from jobs_store.overview import Overview


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningWorker:
    """A worker. earliest_lease_until: when the first of its leases ends unless it is renewed."""

    worker_id: str
    address: str
    running: int
    earliest_lease_until: datetime


class WorkerDirectory:
    """All workers that hold a lease; one that has nothing to do is not seen."""

    def __init__(self, overview: Overview) -> None:
        self._overview = overview

    async def page(self, *, after: str, size: int, budget: Budget) -> list[RunningWorker]:
        """Up to `size` workers with a name above `after`, by name."""
        rows = await self._overview.read("list_workers", after, size, budget=budget)
        return [RunningWorker(**dict(row)) for row in rows]
