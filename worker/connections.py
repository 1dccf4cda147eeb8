"""The process's connections to Postgres: made as soon as it answers, however late that is."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from budget.core import Budget
from jobs_store.pacing import pause
from jobs_store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from budget.postgres import Database
    from jobs_store.creation import PolicyOf
    from jobs_store.pacing import Backoff
    from servicekit.lifecycle import Loop

CONNECT_LIMIT: Final = 5.0
CLOSE_LIMIT: Final = 5.0
CHECK_LIMIT: Final = 2.0
_CHECK: Final = "check_connection"
_log = structlog.stdlib.get_logger("hourglass.worker")


async def until_either(one: asyncio.Event, other: asyncio.Event) -> None:
    """Waits until one of the events is set."""
    async with asyncio.TaskGroup() as group:
        waits = [group.create_task(event.wait(), name="wait for an event") for event in (one, other)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()


class Connections:
    """All databases of the process but the renewal's own."""

    def __init__(self, databases: Sequence[Database], policy_of: PolicyOf, *, backoff: Backoff) -> None:
        self._databases = databases
        self._policy_of = policy_of
        self._backoff = backoff
        self._connected = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        """Connects each database until it is connected; then they mend themselves."""
        async with asyncio.TaskGroup() as group:
            for database in self._databases:
                group.create_task(self._connect(database, stop), name="connect")
        self._connected.set()
        await stop.wait()

    def first(self, loop: Loop) -> Loop:
        """The loop, begun once all databases are connected."""

        async def run(stop: asyncio.Event) -> None:
            await until_either(self._connected, stop)
            if not stop.is_set():
                await loop(stop)

        return run

    async def answers(self) -> bool:
        """Whether Postgres can be used now."""
        first = self._databases[0]
        if not first.connected:
            return False
        budget = Budget.for_work(CHECK_LIMIT)
        try:
            await first.fetchval(budget, self._policy_of(_CHECK), statement(_CHECK))
        except Exception as error:  # noqa: BLE001 - not ready, whatever it is
            _log.debug("Postgres does not answer", error=type(error).__name__)
            return False
        return True

    async def close(self) -> None:
        """Closes all."""
        budget = Budget.for_work(CLOSE_LIMIT)
        await asyncio.gather(*(database.close(budget) for database in self._databases))

    async def _connect(self, database: Database, stop: asyncio.Event) -> None:
        failures = 0
        while not stop.is_set() and not database.connected:
            try:
                await database.connect(Budget.for_work(CONNECT_LIMIT))
            except Exception as error:  # noqa: BLE001 - it may answer later
                log = _log.warning if failures == 0 else _log.debug
                log("Postgres does not answer yet", reason=getattr(error, "reason", "INTERNAL"))
                failures += 1
                await pause(self._backoff.pause(failures), stop)
