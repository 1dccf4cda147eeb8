"""How deep and how old the queues of all lanes are: read on a timer, shown at every scrape, never counted by
one.

Every process that reaps reads them, so that somebody does whatever is killed; whoever charts them takes the
maximum over processes. A figure that could not be read again ages out: a gauge shows what is, or nothing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog
from opentelemetry import metrics
from opentelemetry.metrics import Observation

from budget.core import Budget
from jobs_store.lane_labels import MOST_LANES, LaneLabels
from jobs_store.lanes import DEEPEST_COUNT, GROUPS_LOOKED_AT, Lane, LaneState, lane_of
from jobs_store.pacing import pause, within
from jobs_store.statements import statement

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Sequence

    from opentelemetry.metrics import CallbackOptions

    from budget.core import Clock
    from budget.postgres import Database
    from jobs_store.creation import PolicyOf
    from jobs_store.decisions import Jitter

_STATEMENT: Final = "list_lanes"
_FIRST: Final = ""
_log = structlog.stdlib.get_logger("hourglass.lanes")


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneWatchPace:
    """Durations in seconds. interval: between two looks. look: the budget of one. stale: after so long a
    look is not shown any more. most: lanes, by name; so many series there are at most."""

    interval: float = 15.0
    look: float = 2.0
    stale: float = 60.0
    most: int = MOST_LANES


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    lanes: Sequence[tuple[Lane, float]]
    """Each with the age of its oldest job, by the database's clock."""
    at: float


class LaneWatch:
    """A background loop as the worker role, and the gauges of what it saw last."""

    def __init__(
        self,
        database: Database,
        policy_of: PolicyOf,
        *,
        jitter: Jitter,
        pace: LaneWatchPace | None = None,
        clock: Clock = time.monotonic,
        meter: metrics.Meter | None = None,
    ) -> None:
        self._database = database
        self._policy_of = policy_of
        self._jitter = jitter
        self._pace = pace or LaneWatchPace()
        self._clock = clock
        self._last: _Look | None = None
        self._labels = LaneLabels(self._pace.most)
        self._make_gauges(meter or metrics.get_meter("hourglass.lanes"))

    async def run(self, stop: asyncio.Event) -> None:
        """Looks until `stop` is set. Every failure is survived: the figures age out."""
        while not stop.is_set():
            await self.look()
            await pause(within(self._pace.interval, self._jitter), stop)

    async def look(self) -> None:
        """One look, within its own budget."""
        arguments = (_FIRST, self._pace.most, DEEPEST_COUNT, GROUPS_LOOKED_AT)
        try:
            rows = await self._database.fetch(
                Budget.for_work(self._pace.look),
                self._policy_of(_STATEMENT),
                statement(_STATEMENT),
                *arguments,
            )
        except Exception as error:  # noqa: BLE001 - the next look comes
            _log.debug("lanes were not looked at", reason=getattr(error, "reason", "INTERNAL"))
            return
        self._last = _Look(lanes=[(lane_of(row), row["oldest_age"]) for row in rows], at=self._clock())

    def _make_gauges(self, meter: metrics.Meter) -> None:
        meter.create_observable_gauge(
            "hourglass.lane.queued",
            [self._showing(lambda lane, _: lane.queued)],
            unit="{job}",
            description=f"Jobs that wait in a lane, counted to {DEEPEST_COUNT}",
        )
        meter.create_observable_gauge(
            "hourglass.lane.oldest_age",
            [self._showing(lambda _, age: max(0.0, age))],
            unit="s",
            description="For how long the oldest job of a lane could have been claimed; 0 when none could",
        )
        meter.create_observable_gauge(
            "hourglass.lane.running",
            [self._showing(lambda lane, _: lane.running)],
            unit="{job}",
            description="Jobs of a lane that run, over all workers",
        )
        meter.create_observable_gauge(
            "hourglass.lane.closed",
            [self._closed],
            unit="{lane}",
            description="1 for a lane that nobody claims from: PAUSED by an operator, PARKED by its provider",
        )

    def _showing(
        self, value: Callable[[Lane, float], float]
    ) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def show(_: CallbackOptions) -> Iterable[Observation]:
            if (last := self._fresh()) is not None:
                for lane, age in last.lanes:
                    yield Observation(value(lane, age), self._labels.of(lane.lane))

        return show

    def _closed(self, _: CallbackOptions) -> Iterable[Observation]:
        if (last := self._fresh()) is not None:
            for lane, _age in last.lanes:
                for state in (LaneState.PAUSED, LaneState.PARKED):
                    labels = {**self._labels.of(lane.lane), "state": state.value}
                    yield Observation(int(lane.state is state), labels)

    def _fresh(self) -> _Look | None:
        last = self._last
        return last if last is not None and self._clock() - last.at <= self._pace.stale else None
