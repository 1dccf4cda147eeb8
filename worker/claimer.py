"""Claims jobs for the slots that are free, and never sleeps while a backlog waits."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from budget.core import Budget
from jobs_store.runs import ClaimRequest
from jobs_store.signals import jobs_ready
from jobs_store.subscriptions import Wakeup
from jobs_store.turns import Turn

if TYPE_CHECKING:
    from jobs_store.decisions import Jitter
    from jobs_store.runs import RunStore
    from jobs_store.subscriptions import Subscriptions
    from worker.lanes import Lanes
    from worker.lease import Leases
    from worker.slots import Slots
    from worker.supervisor import Supervisor
    from worker.tracing import RunTraces

_log = structlog.stdlib.get_logger("hourglass.worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimTerms:
    """Who claims and how. Times are seconds.

    poll: about so long between two looks without a signal; jitter keeps idle workers from looking together.
    limit: one claim. cut_off: without a renewal for so long nothing is claimed.
    tenants: looked at in a lane at once.
    """

    worker_id: str
    worker_address: str
    lease: float
    poll: float
    limit: float
    cut_off: float
    tenants: int
    jitter: Jitter


class Claimer:
    """The loop that claims. As long as claims bring anything and slots are free, the next follows at once."""

    def __init__(
        self,
        store: RunStore,
        supervisor: Supervisor,
        *,
        lanes: Lanes,
        slots: Slots,
        leases: Leases,
        subscriptions: Subscriptions,
        traces: RunTraces,
        terms: ClaimTerms,
    ) -> None:
        self._store = store
        self._supervisor = supervisor
        self._lanes = lanes
        self._slots = slots
        self._leases = leases
        self._subscriptions = subscriptions
        self._traces = traces
        self._terms = terms
        self._wakeup = Wakeup()
        self._turn = Turn()
        self._backlog = False
        """Whether the last claim brought anything, so that more may wait."""
        self._failing = False

    async def run(self, stop: asyncio.Event) -> None:
        """Claims until `stop` is set; a claim that is under way is finished, and its runs begin."""
        self._slots.on_free = self._slot_came_free
        async with asyncio.TaskGroup() as group:
            group.create_task(self._claim_until(stop), name="claim")
            await stop.wait()
            self._wakeup.wake()

    def _slot_came_free(self) -> None:
        if self._backlog:
            self._wakeup.wake()

    async def _claim_until(self, stop: asyncio.Event) -> None:
        await self._discover()
        while not stop.is_set():
            signals = map(jobs_ready, self._lanes.served)
            with self._subscriptions.calling(self._wakeup.wake, *signals):
                await self._claim_in_lanes(stop)

    async def _claim_in_lanes(self, stop: asyncio.Event) -> None:
        """Claims until there are more lanes to claim from."""
        found = False
        while not stop.is_set() and not found:
            if await self._claim():
                continue
            if not await self._wakeup.wait(Budget.for_work(self._pause())):
                found = await self._discover()

    async def _claim(self) -> bool:
        """One claim; True when the next should follow at once."""
        free, sent_at, started = self._slots.free, time.monotonic(), time.time_ns()
        if free == 0 or not self._lanes.served or self._leases.since_proof() > self._terms.cut_off:
            return False
        try:
            dealt = await self._store.claim(self._request(free), budget=Budget.for_work(self._terms.limit))
        except Exception as error:  # noqa: BLE001 - whatever it was, the next claim may work
            self._report("nothing was claimed", error)
            return False
        self._failing = False
        self._backlog, self._turn = len(dealt.runs) > 0, dealt.turn
        if dealt.runs:
            self._traces.claim(started, len(dealt.runs))
        for run in dealt.runs:
            self._supervisor.begin(run, sent_at=sent_at)
        return self._backlog

    async def _discover(self) -> bool:
        try:
            return await self._lanes.discover(budget=Budget.for_work(self._terms.limit))
        except Exception as error:  # noqa: BLE001 - the next poll tries again
            self._report("lanes were not looked for", error)
            return False

    def _request(self, free: int) -> ClaimRequest:
        terms = self._terms
        return ClaimRequest(
            lanes=self._lanes.served,
            slots=free,
            worker_id=terms.worker_id,
            worker_address=terms.worker_address,
            lease=terms.lease,
            turn=self._turn,
            tenants=terms.tenants,
        )

    def _pause(self) -> float:
        return self._terms.poll / 2 + self._terms.jitter(self._terms.poll)

    def _report(self, event: str, error: Exception) -> None:
        foreseen = hasattr(error, "reason")
        log = _log.debug if self._failing and foreseen else _log.warning
        self._failing = True
        log(
            event,
            error=type(error).__name__,
            reason=getattr(error, "reason", "INTERNAL"),
            exc_info=not foreseen,
        )
