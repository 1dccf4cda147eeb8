"""The reaper's loop: when to reap, and when to leave the workers time to renew first.

Rounds keep nothing between them, so any number of processes may run this: each goes on when others die.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from budget.core import Budget
from budget.postgres import Database
from jobs_store.creation import PolicyOf
from jobs_store.decisions import Jitter
from jobs_store.lane_watch import LaneWatch
from jobs_store.pacing import pause, within
from jobs_store.reaper import OldestSnapshot, Reaped, Reaper
from jobs_store.reaper_metrics import ReaperMetrics
from jobs_store.retention_loop import RetentionLoop
from jobs_store.statements import statement

_log = structlog.stdlib.get_logger("hourglass.reaper")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaperPace:
    """Durations in seconds.

    interval: at most this between two rounds. round: the budget of one.
    reconnect_wait: after every connect, the first one too, until the first round: while the database was away
        no worker could renew, and each of them comes first.
    partitions_interval, partitions_retry: between two looks at the partitions, after one that went well and
        after one that did not. partitions: the budget of one. weeks_ahead: how many have to exist.
    """

    interval: float = 5.0
    round: float = 10.0
    reconnect_wait: float = 10.0
    partitions_interval: float = 86_400.0
    partitions_retry: float = 60.0
    partitions: float = 30.0
    weeks_ahead: int = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """How a round went: jobs that it moved on, by why, calls that it settled, and the seconds that it took.

    oldest_lease: for how many seconds the oldest lease had been over that it found.
    snapshot: the oldest one in the database after it; None when that could not be seen.
    reason: empty when it went well; else why it broke off, and what it had moved by then is not counted.
    """

    taken_over: int = 0
    expired: int = 0
    hold_ended: int = 0
    calls_settled: int = 0
    oldest_lease: float = 0.0
    snapshot: OldestSnapshot | None = None
    took: float
    reason: str = ""


class ReaperLoop:
    """Reaps, keeps the partitions, trims what is old and watches the lanes, until it is told to stop.

    `database` is the one that `reaper`, `retention` and `lanes` use. `observe` is told of each round; without
    it, gauges show the last one.
    """

    def __init__(
        self,
        reaper: Reaper,
        database: Database,
        policy_of: PolicyOf,
        *,
        jitter: Jitter,
        pace: ReaperPace | None = None,
        observe: Callable[[Round], None] | None = None,
        retention: RetentionLoop | None = None,
        lanes: LaneWatch | None = None,
    ) -> None:
        self._reaper = reaper
        self._retention = retention
        self._lanes = lanes
        self._database = database
        self._policy_of = policy_of
        self._jitter = jitter
        self._pace = pace or ReaperPace()
        self._observe = observe or ReaperMetrics().observe
        self._settled: int | None = None
        """How many connections had been lost when the workers last had their time; None: not yet."""

    async def run(self, stop: asyncio.Event) -> None:
        """Runs until `stop` is set; finishes the round in hand. Every failure is logged and survived."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._reap_until(stop), name="reap")
            group.create_task(self._keep_partitions(stop), name="keep partitions")
            if self._retention is not None:
                group.create_task(self._retention.run(stop), name="trim what is old")
            if self._lanes is not None:
                group.create_task(self._lanes.run(stop), name="watch lanes")

    async def _reap_until(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            if self._settled != self._database.lost:
                await self._settle(stop)
            elif not await self._round():
                await pause(within(self._pace.interval, self._jitter), stop)

    async def _settle(self, stop: asyncio.Event) -> None:
        """Once the database answers, gives the workers their time. A loss meanwhile starts that again."""
        lost = self._database.lost
        if await self._answers():
            await pause(self._pace.reconnect_wait, stop)
            self._settled = lost
        else:
            await pause(within(self._pace.interval, self._jitter), stop)

    async def _answers(self) -> bool:
        name = "check_connection"
        budget = Budget.for_work(self._pace.round)
        try:
            await self._database.fetchval(budget, self._policy_of(name), statement(name))
        except Exception as error:  # noqa: BLE001 - it will be asked again
            _report("the reaper waits for the database", error)
            return False
        return True

    async def _round(self) -> bool:
        """One round; True when more waits and the next should follow at once."""
        started = time.monotonic()
        try:
            reaped = await self._reaper.reap(budget=Budget.for_work(self._pace.round))
        except Exception as error:  # noqa: BLE001 - the next round finds what this one left
            self._fail(error, took=time.monotonic() - started)
            return False
        took = time.monotonic() - started
        self._observe(_round_of(reaped, snapshot=await self._oldest_snapshot(), took=took))
        return reaped.more and _moved(reaped) > 0

    async def _oldest_snapshot(self) -> OldestSnapshot | None:
        try:
            return await self._reaper.oldest_snapshot(budget=Budget.for_work(self._pace.round))
        except Exception as error:  # noqa: BLE001 - a figure less
            _report("the oldest snapshot was not read", error)
            return None

    def _fail(self, error: Exception, *, took: float) -> None:
        reason = _report("a reaper's round failed", error)
        self._observe(Round(took=took, reason=reason))

    async def _keep_partitions(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            made = await self._ensure_partitions()
            wait = self._pace.partitions_interval if made is not None else self._pace.partitions_retry
            await pause(within(wait, self._jitter), stop)

    async def _ensure_partitions(self) -> int | None:
        budget = Budget.for_work(self._pace.partitions)
        try:
            made = await self._reaper.ensure_partitions(weeks_ahead=self._pace.weeks_ahead, budget=budget)
        except Exception as error:  # noqa: BLE001 - weeks of partitions are left, and it is tried again
            _report("partitions not looked after", error)
            return None
        _log.info("partitions looked after", made=made)
        return made


def _round_of(reaped: Reaped, *, snapshot: OldestSnapshot | None, took: float) -> Round:
    return Round(
        taken_over=reaped.taken_over,
        expired=reaped.expired,
        hold_ended=reaped.hold_ended,
        calls_settled=reaped.calls_settled,
        oldest_lease=reaped.oldest_lease,
        snapshot=snapshot,
        took=took,
    )


def _moved(reaped: Reaped) -> int:
    # A full page of which nothing moved is locked by others, or broken: asking again at once would spin.
    return reaped.taken_over + reaped.expired + reaped.hold_ended + reaped.calls_settled


def _report(event: str, error: Exception) -> str:
    """Logs a failure and answers its reason; one that nobody foresaw is logged with its traceback."""
    reason = getattr(error, "reason", None)
    foreseen = isinstance(reason, str)
    _log.warning(event, reason=reason or "INTERNAL", error=type(error).__name__, exc_info=not foreseen)
    return reason if isinstance(reason, str) else "INTERNAL"
