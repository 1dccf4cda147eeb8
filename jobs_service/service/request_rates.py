"""The tenants' own request rates, read for those who ask: never by a request, one statement for many tenants.

A tenant that is new to this server has the default rate until the next look, a quarter of a second at most;
a changed rate counts on every server within `interval`. While the store is away what was known last counts.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import structlog

from budget.core import Budget
from budget.errors import BudgetError
from jobs_store.identifiers import TenantId
from jobs_store.pacing import pause
from servicekit.rate_limit import RateLimits

_log = structlog.stdlib.get_logger("hourglass.rates")


class RatesReader(Protocol):
    """The store, as far as it is needed here."""

    async def request_rates(
        self, tenants: Sequence[TenantId], *, budget: Budget
    ) -> Mapping[TenantId, float | None]:
        """Requests a second of each tenant; None for one without a rate of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RatesPace:
    """look: seconds between two looks for new tenants. interval: until all are read again. limit: for one
    statement. page: its tenants at most."""

    look: float = 0.25
    interval: float = 10.0
    limit: float = 2.0
    page: int = 500


class RequestRates:
    """A background loop."""

    def __init__(
        self,
        limits: RateLimits,
        reader: RatesReader,
        pace: RatesPace,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits = limits
        self._reader = reader
        self._pace = pace
        self._clock = clock
        self._due = clock() + pace.interval
        self._failed = False

    async def run(self, stop: asyncio.Event) -> None:
        """Looks until `stop` is set; every failure of the store is survived."""
        while not stop.is_set():
            await self.look()
            await pause(self._pace.interval if self._failed else self._pace.look, stop)

    async def look(self) -> None:
        """Reads the rates of new tenants, or of all when that is due. Without any it costs nothing."""
        new = self._limits.take_new()
        due = self._failed or self._clock() >= self._due
        tenants = self._limits.tenants if due else new
        if due:
            self._due = self._clock() + self._pace.interval
        try:
            await self._read(tenants)
        except BudgetError as error:
            self._fail(error)
        else:
            self._failed = False

    async def _read(self, tenants: Collection[str]) -> None:
        named = [TenantId(tenant) for tenant in tenants]
        for start in range(0, len(named), self._pace.page):
            page, budget = named[start : start + self._pace.page], Budget.for_work(self._pace.limit)
            rates = await self._reader.request_rates(page, budget=budget)
            self._limits.assign({str(tenant): rate for tenant, rate in rates.items()})

    def _fail(self, error: BudgetError) -> None:
        if not self._failed:
            _log.warning("the rates of tenants cannot be read: those known last count", reason=error.reason)
        self._failed = True
