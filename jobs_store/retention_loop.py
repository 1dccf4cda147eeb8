"""The loop around retention: a few statements, a breath, and a look for what is due now and then."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import structlog

from budget.core import Budget
from jobs_store.decisions import Jitter
from jobs_store.pacing import pause, within
from jobs_store.retention import Retention, Trimmed

_log = structlog.stdlib.get_logger("hourglass.retention")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPace:
    """Durations in seconds.

    look: between two looks whether a pass is due. breath: between two rounds of a pass, for everybody else.
    round: the budget of one round.
    """

    look: float = 60.0
    breath: float = 0.5
    round: float = 30.0

    @classmethod
    def for_passes(cls, interval: float) -> Self:
        """Looks often enough for passes that are due every `interval` seconds."""
        usual = cls()
        return replace(usual, look=min(usual.look, interval), breath=min(usual.breath, interval))


class RetentionLoop:
    """Trims until it is told to stop; every failure is logged and survived."""

    def __init__(
        self,
        retention: Retention,
        *,
        jitter: Jitter,
        pace: RetentionPace | None = None,
        observe: Callable[[Trimmed], None] = lambda _: None,
    ) -> None:
        self._retention = retention
        self._jitter = jitter
        self._pace = pace or RetentionPace()
        self._observe = observe

    async def run(self, stop: asyncio.Event) -> None:
        """Runs until `stop` is set; finishes the round in hand."""
        while not stop.is_set():
            goes_on = await self._round()
            await pause(self._pace.breath if goes_on else within(self._pace.look, self._jitter), stop)

    async def _round(self) -> bool:
        try:
            trimmed = await self._retention.trim(budget=Budget.for_work(self._pace.round))
        except Exception as error:  # noqa: BLE001 - the next pass finds what this one left
            reason = getattr(error, "reason", "INTERNAL")
            _log.warning("retention waits", reason=reason, error=type(error).__name__)
            return False
        if trimmed.rows:
            _log.info("retention", **trimmed.rows)
        self._observe(trimmed)
        return trimmed.more
