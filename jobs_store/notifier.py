"""Sends wake-ups to every process, away from requests and from data transactions.

The first goes at once; what comes while that one is under way goes in one more statement, without repeats. A
NOTIFY in each data transaction would halve their rate, because their commits queue for one lock.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from budget.core import Budget
from budget.postgres import Database
from jobs_store.creation import PolicyOf
from jobs_store.pacing import Backoff, pause
from jobs_store.signals import Signal
from jobs_store.statements import statement

_log = structlog.stdlib.get_logger("hourglass.notifier")


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifierLimits:
    """spacing: least seconds between two statements. statement: seconds for one, connecting included.

    pending: different signals that may wait for the next statement; beyond it they are dropped.
    """

    spacing: float = 0.010
    statement: float = 1.0
    pending: int = 10_000


class Notifier:
    """`notify` is what the process calls, `run` is its background loop.

    `database` is a connection of its own (`size=1`). A signal that cannot be sent is dropped and counted:
    every reader polls as well.
    """

    def __init__(
        self,
        database: Database,
        policy_of: PolicyOf,
        *,
        backoff: Backoff,
        limits: NotifierLimits | None = None,
    ) -> None:
        self.sent = 0
        """Signals that PostgreSQL has taken."""
        self.dropped = 0
        """Signals that were given up."""
        self.statements = 0
        """Statements that were sent or tried."""
        self._database = database
        self._policy_of = policy_of
        self._backoff = backoff
        self._limits = limits or NotifierLimits()
        self._pending: dict[Signal, None] = {}
        self._due = asyncio.Event()
        self._failures = 0

    def notify(self, signal: Signal) -> None:
        """Has a signal sent soon; returns at once. Call it after the commit, on the event loop's thread."""
        if signal not in self._pending and len(self._pending) >= self._limits.pending:
            self.dropped += 1
            return
        self._pending[signal] = None
        self._due.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Sends until `stop` is set, and then once more what waits."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._send_until(stop), name="notify")
            await stop.wait()
            self._due.set()

    async def _send_until(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            await self._due.wait()
            await self._flush()
            await pause(self._spacing(), stop)
        await self._flush()

    def _spacing(self) -> float:
        return max(self._limits.spacing, self._backoff.pause(self._failures) if self._failures else 0.0)

    async def _flush(self) -> None:
        batch = self._take()
        if not batch:
            return
        try:
            await self._send(batch, budget=Budget.for_work(self._limits.statement))
        except Exception as error:  # noqa: BLE001 - whatever it was, a wake-up is not worth more than a line
            self._drop(batch, error)
        else:
            self.sent += len(batch)
            self._failures = 0

    def _take(self) -> Sequence[Signal]:
        batch = list(self._pending)
        self._pending.clear()
        self._due.clear()
        return batch

    async def _send(self, batch: Sequence[Signal], *, budget: Budget) -> None:
        self.statements += 1
        name = "send_notifications"
        channels, payloads = [signal.channel.value for signal in batch], [signal.key for signal in batch]
        await self._database.execute(budget, self._policy_of(name), statement(name), channels, payloads)

    def _drop(self, batch: Sequence[Signal], error: Exception) -> None:
        self.dropped += len(batch)
        self._failures += 1
        reason = getattr(error, "reason", "INTERNAL")
        _log.warning(
            "wake-ups dropped: readers find out by polling",
            count=len(batch),
            error=type(error).__name__,
            reason=reason,
        )
