"""A database that may not be there when a process starts: it is asked again and again until it is."""

import asyncio
from collections.abc import Callable

import structlog

from budget.core import Budget
from budget.errors import BudgetError
from budget.postgres import Database
from budget.spend import reason_of
from servicekit.lifecycle import Loop, pause

_log = structlog.stdlib.get_logger("hourglass.database")


async def _idle(stop: asyncio.Event) -> None:
    await stop.wait()


class Connecting:
    """A background loop that connects a database, with backoff and jitter, and then runs what needs it.

    jitter: answers a number of seconds between 0 and its argument. limit: the budget of one try, in seconds.
    loop: runs once the database is connected, or when it is time to stop.
    """

    def __init__(
        self,
        database: Database,
        name: str,
        *,
        jitter: Callable[[float], float],
        limit: float = 5.0,
        first: float = 0.2,
        longest: float = 3.0,
        loop: Loop = _idle,
    ) -> None:
        self._database = database
        self._name = name
        self._jitter = jitter
        self._limit = limit
        self._first = first
        self._longest = longest
        self._loop = loop

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set."""
        failures = 0
        while not self._database.connected and not stop.is_set():
            try:
                await self._database.connect(Budget.for_work(self._limit))
            except (BudgetError, OSError) as error:
                failures += 1
                await self._wait(failures, error, stop)
            else:
                _log.info("database connected", database=self._name, failures=failures)
        await self._loop(stop)

    async def _wait(self, failures: int, error: Exception, stop: asyncio.Event) -> None:
        ceiling = min(self._longest, self._first * 2.0 ** min(failures, 30))
        wait = ceiling / 2 + self._jitter(ceiling / 2)
        _log.warning(
            "the database cannot be reached: requests are refused until it can",
            database=self._name,
            reason=reason_of(error),
            cause=type(error.__cause__ or error).__name__,
            tries=failures,
            next_try_in=round(wait, 2),
        )
        await pause(wait, stop)
