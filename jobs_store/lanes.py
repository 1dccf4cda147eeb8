"""Lanes as operators see and change them. A lane is one provider route and model.

Every change takes the lane's lock, which every claim takes too: a claim that comes after it sees it.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from budget.core import Budget
from budget.postgres import Record, Transaction
from jobs_store.errors import LaneNotFound
from jobs_store.operator_requests import NO_TENANT, Asked, OperatorRequest, take_request
from jobs_store.overview import Overview
from jobs_store.statements import statement

DEEPEST_COUNT: Final = 10_000
GROUPS_LOOKED_AT: Final = 2_000
"""Groups by tenant, priority and spec version among which the job that was ready first is looked for."""
OPERATOR_PAUSE: Final = "OPERATOR_PAUSE"


class LaneState(StrEnum):
    """Whether jobs are claimed from a lane."""

    OPEN = "OPEN"
    PAUSED = "PAUSED"
    PARKED = "PARKED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A lane as it is.

    state_cause: empty when OPEN. park_until: None when not parked, or without a known end. max_running: None
    for no limit. queued: counted up to DEEPEST_COUNT. oldest_ready_time: None when no job is ready.
    """

    lane: str
    state: LaneState
    state_cause: str
    paused_time: datetime | None
    park_until: datetime | None
    max_running: int | None
    running: int
    queued: int
    oldest_ready_time: datetime | None


class LaneStore:
    """All lanes, for all tenants.

    Every change answers False when its request_id was known, and raises LaneNotFound and RequestIdReused;
    then nothing was written.
    """

    def __init__(self, overview: Overview) -> None:
        self._overview = overview

    async def page(self, *, start: str, size: int, budget: Budget) -> list[Lane]:
        """Up to `size` lanes by name, from `start` on: those that are known, and those in which jobs wait."""
        rows = await self._overview.read(
            "list_lanes", start, size, DEEPEST_COUNT, GROUPS_LOOKED_AT, budget=budget
        )
        return [lane_of(row) for row in rows]

    async def get(self, lane: str, *, budget: Budget) -> Lane:
        """One lane. Raises LaneNotFound."""
        found = await self.page(start=lane, size=1, budget=budget)
        if not found or found[0].lane != lane:
            raise LaneNotFound(lane)
        return found[0]

    async def limit(
        self, lane: str, max_running: int | None, request: OperatorRequest, *, budget: Budget
    ) -> bool:
        """Change how many jobs may run at once; None: as many as there are slots. What runs goes on."""
        asked = _asked("UPDATE_LANE", lane, max_running=max_running)
        async with self._overview.change("change_lane", budget) as transaction:
            if not await _take(transaction, lane, request, asked):
                return False
            await transaction.execute(statement("update_lane"), lane, max_running)
            return True

    async def pause(self, lane: str, request: OperatorRequest, *, budget: Budget) -> bool:
        """No claims until somebody resumes the lane. What runs goes on."""
        async with self._overview.change("change_lane", budget) as transaction:
            if not await _take(transaction, lane, request, _asked("PAUSE_LANE", lane)):
                return False
            await transaction.execute(statement("pause_lane"), lane)
            return True

    async def resume(self, lane: str, request: OperatorRequest, *, budget: Budget) -> bool:
        """End a pause and a parking."""
        async with self._overview.change("change_lane", budget) as transaction:
            if not await _take(transaction, lane, request, _asked("RESUME_LANE", lane)):
                return False
            await transaction.execute(statement("resume_lane"), lane)
            return True


def _asked(action: str, lane: str, **details: object) -> Asked:
    return Asked(
        action=action,
        content=(action, lane, *details.values()),
        subject=f"lane:{lane}",
        details=details,
    )


async def _take(transaction: Transaction, lane: str, request: OperatorRequest, asked: Asked) -> bool:
    """Takes the request, and the lane's lock."""
    if not await take_request(transaction, NO_TENANT, request, asked):
        return False
    await transaction.execute(statement("know_lane"), lane)
    if await transaction.fetchrow(statement("lock_lane"), lane) is None:
        raise LaneNotFound(lane)
    return True


def lane_of(row: Record) -> Lane:
    """A lane, of a row of list_lanes."""
    state = LaneState(row["state"])
    cause = OPERATOR_PAUSE if state is LaneState.PAUSED else row["park_cause"]
    return Lane(
        lane=row["lane"],
        state=state,
        state_cause=cause or "",
        paused_time=row["paused_time"],
        park_until=row["park_until"],
        max_running=row["max_running"],
        running=row["running"],
        queued=row["queued"],
        oldest_ready_time=row["oldest_ready_time"],
    )
