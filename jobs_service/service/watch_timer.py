"""One timer for all jobs that are watched or waited for in this process: one statement a tick for all.

A wake-up may get lost; the timer finds what it was about and wakes whoever waits, so that costs a tick and
never a hang. Nobody who waits reads the store on a timer of their own while this one ticks.
"""

import asyncio
from dataclasses import dataclass

import structlog

from budget.core import Budget
from budget.errors import BudgetError
from jobs_service.service.ports import JobKey, PositionsReader
from jobs_store.decisions import Jitter
from jobs_store.identifiers import JobId, TenantId
from jobs_store.pacing import pause, within
from jobs_store.reading import Position
from jobs_store.signals import Channel, job_changed, job_of
from jobs_store.subscriptions import Subscriptions

_log = structlog.stdlib.get_logger("hourglass.watch")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerPace:
    """interval, limit: seconds between two ticks, and for one. page: jobs of one statement at most.

    failures: so many in a row, and whoever waits looks for themselves.
    """

    jitter: Jitter
    interval: float = 1.0
    limit: float = 5.0
    page: int = 20_000
    failures: int = 3


class WatchTimer:
    """See `ports.Positions`. `run` is its background loop."""

    def __init__(self, reader: PositionsReader, subscriptions: Subscriptions, pace: TimerPace) -> None:
        self.statements = 0
        """How many it has sent."""
        self._reader = reader
        self._subscriptions = subscriptions
        self._pace = pace
        self._latest: dict[JobKey, Position] = {}
        self._failures = pace.failures
        """In a row; before the first tick nobody relies on it."""

    @property
    def ticking(self) -> bool:
        """See `ports.Positions`."""
        return self._failures < self._pace.failures

    def latest(self, tenant: TenantId, job_id: JobId) -> Position | None:
        """See `ports.Positions`."""
        return self._latest.get((tenant, job_id))

    async def run(self, stop: asyncio.Event) -> None:
        """Ticks until `stop` is set; every failure of the store is survived."""
        while not stop.is_set():
            await self.tick()
            await pause(within(self._pace.interval, self._pace.jitter), stop)
        self._failures = self._pace.failures

    async def tick(self) -> None:
        """Reads where all jobs stand that somebody waits for, and wakes those who wait for one that moved."""
        try:
            found = await self._read()
        except BudgetError as error:
            self._fail(error)
            return
        self._failures = 0
        before, self._latest = self._latest, found
        for key, position in found.items():
            known = before.get(key)
            # Not known: nobody can say whether it moved since its first reader looked.
            if known is None or has_moved(known, position):
                self._subscriptions.wake(job_changed(*key))

    async def _read(self) -> dict[JobKey, Position]:
        jobs = [job_of(signal) for signal in self._subscriptions.waited_for(Channel.JOBS_CHANGED)]
        found: dict[JobKey, Position] = {}
        for start in range(0, len(jobs), self._pace.page):
            self.statements += 1
            page, budget = jobs[start : start + self._pace.page], Budget.for_work(self._pace.limit)
            found.update(await self._reader.positions(page, budget=budget))
        return found

    def _fail(self, error: BudgetError) -> None:
        self._failures += 1
        if self._failures == self._pace.failures:
            _log.warning("the watch timer fails: who waits looks for themselves", reason=error.reason)
            self._subscriptions.wake_all()


def has_moved(before: Position, now: Position) -> bool:
    """Whether there is anything for those who wait: a change of state, or events that no worker streams."""
    if now.worker_address is None and now.last_sequence != before.last_sequence:
        return True
    return (now.state, now.epoch, now.worker_address) != (before.state, before.epoch, before.worker_address)
