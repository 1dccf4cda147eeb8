"""What operators do to lanes, and who is told: workers that wait for work look again at once."""

from budget.core import Budget
from jobs_store.lanes import Lane, LaneStore
from jobs_store.operator_requests import OperatorRequest
from jobs_store.signals import Notify, jobs_ready


class LaneControl:
    """Every change answers the lane right after it, and whether its request_id was known.

    Each raises LaneNotFound, RequestIdReused, OverviewNotConfigured. The same request again is harmless, also
    after a commit that nobody heard of.
    """

    def __init__(self, lanes: LaneStore, notify: Notify) -> None:
        self._lanes = lanes
        self._notify = notify

    async def limit(
        self, lane: str, max_running: int | None, request: OperatorRequest, *, budget: Budget
    ) -> tuple[Lane, bool]:
        """Other jobs may run at once; None: any number."""
        is_new = await self._lanes.limit(lane, max_running, request, budget=budget)
        return await self._opened(lane, is_new=is_new, budget=budget)

    async def pause(self, lane: str, request: OperatorRequest, *, budget: Budget) -> tuple[Lane, bool]:
        """No more claims."""
        is_new = await self._lanes.pause(lane, request, budget=budget)
        return await self._lanes.get(lane, budget=budget), not is_new

    async def resume(self, lane: str, request: OperatorRequest, *, budget: Budget) -> tuple[Lane, bool]:
        """Claims again."""
        is_new = await self._lanes.resume(lane, request, budget=budget)
        return await self._opened(lane, is_new=is_new, budget=budget)

    async def _opened(self, lane: str, *, is_new: bool, budget: Budget) -> tuple[Lane, bool]:
        if is_new:
            self._notify(jobs_ready(lane))
        return await self._lanes.get(lane, budget=budget), not is_new
