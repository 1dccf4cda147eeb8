"""The time of one provider call: a total from the budget, and a limit for each silence inside it.

The HTTP library's own read timeout starts anew with every byte, so a response that drips would never end;
here every wait has its own timer and none outlasts the total.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Self, TypeVar

from budget.cancel import CancelWatch
from budget.ledger import Outcome
from budget.spend import Begun, reason_of
from budget.wire import WIRE_STEP

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from budget.core import Budget
    from budget.policy import Policy

Result = TypeVar("Result")


class Limit(StrEnum):
    """Which limit ended a call."""

    SILENCE = "SILENCE"
    TOTAL = "TOTAL"
    BUDGET = "BUDGET"


class TimeIsUp(Exception):
    """A wait reached its own limit, the call its total, or the budget its end."""

    def __init__(self, limit: Limit) -> None:
        super().__init__(limit)
        self.limit = limit


class SpuriousCancel(Exception):
    """The awaited work was cancelled, but nobody cancelled this task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """One call that has begun. `end_with` or `end` writes its one line into the ledger."""

    begun: Begun

    @classmethod
    def start(cls, budget: Budget, policy: Policy) -> Self:
        """Raises BudgetTooLow, before anything is touched, when too little remains."""
        return cls(begun=Begun.now(budget, policy))

    @property
    def now(self) -> float:
        """The instant of the call's own clock."""
        return self.begun.child.clock()

    @property
    def remaining(self) -> float:
        """Seconds to the total."""
        return self.begun.child.remaining()

    async def step(self, work: Coroutine[Any, Any, Result], *, limit: float) -> Result:
        """Awaits one piece of the call. Raises TimeIsUp and SpuriousCancel."""
        allowed = min(limit, self.remaining)
        if allowed <= 0:
            work.close()
            raise self._time_is_up()
        watch = CancelWatch.here()
        timer = asyncio.timeout(allowed)
        try:
            async with timer:
                return await work
        except asyncio.CancelledError as error:
            if watch.cancelled:
                raise
            raise SpuriousCancel from error
        except TimeoutError as error:
            watch.raise_if_cancelled()
            if timer.expired():
                raise self._time_is_up() from error
            raise

    def end_with(self, error: BaseException | None) -> None:
        """Records how the call ended; only the first ending counts."""
        time_is_up = error.__cause__ if error is not None else None
        match error:
            case None:
                self.begun.end(Outcome.OK)
            case asyncio.CancelledError():
                self.begun.end(Outcome.CANCELLED)
            case _ if isinstance(time_is_up, TimeIsUp) and time_is_up.limit is Limit.BUDGET:
                self.begun.end(Outcome.EXHAUSTED)
            case _ if isinstance(time_is_up, TimeIsUp):
                self.begun.end(Outcome.TIMEOUT, reason_of(error))
            case _:
                self.begun.end(Outcome.ERROR, reason_of(error))

    def _time_is_up(self) -> TimeIsUp:
        if self.remaining >= WIRE_STEP:
            return TimeIsUp(Limit.SILENCE)
        return TimeIsUp(Limit.TOTAL if self.begun.budget.spendable() >= WIRE_STEP else Limit.BUDGET)
