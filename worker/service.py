"""The use cases of WorkerService."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from worker.errors import NotOwner, ReRead
from worker.event_log import LogEnd, TooFarBack

if TYPE_CHECKING:
    from collections.abc import Callable
    from decimal import Decimal

    from jobs_store.events import Event
    from jobs_store.identifiers import JobId, Sequence, TenantId
    from worker.active import ActiveRuns
    from worker.event_log import EventLog
    from worker.lanes import Lanes
    from worker.lease import Leases
    from worker.slots import Slots

MOST_EVENTS: Final = 64
"""Read from a log at once."""


class WorkerState(StrEnum):
    """Where the worker stands."""

    ACTIVE = "ACTIVE"
    CUT_OFF = "CUT_OFF"
    DRAINING = "DRAINING"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatus:
    """How busy the worker is. at_risk: dollars that what it runs may cost at worst."""

    worker_id: str
    state: WorkerState
    slots: int
    free_slots: int
    lanes: tuple[str, ...]
    since_renewal: float
    at_risk: Decimal


class ProgressReader:
    """One reader's way through the log of a run."""

    def __init__(self, job_id: JobId, log: EventLog, cursor: Sequence, *, heartbeat: float) -> None:
        """Raises NotOwner for a cursor in a later epoch than the run's, ReRead for one too far back."""
        if cursor >> 32 > log.epoch:
            raise NotOwner(job_id)
        self._job_id = job_id
        self._log = log
        self._heartbeat = heartbeat
        try:
            self._place = log.place_of(cursor)
        except TooFarBack:
            raise ReRead(job_id) from None

    async def next(self) -> list[Event] | None:
        """The next events; none when nothing happened for a while; None after the run's last event.

        Raises NotOwner when the run lost its job, ReRead when the reader was too slow.
        """
        if not await self._log.wait_beyond(self._place, seconds=self._heartbeat):
            return []
        if self._log.end is LogEnd.NOT_OWNER:
            raise NotOwner(self._job_id)
        try:
            events = self._log.read(self._place, most=MOST_EVENTS)
        except TooFarBack:
            raise ReRead(self._job_id) from None
        self._place += len(events)
        return events or None


class WorkerService:
    """What servers ask of a worker."""

    def __init__(
        self,
        *,
        worker_id: str,
        active: ActiveRuns,
        slots: Slots,
        lanes: Lanes,
        leases: Leases,
        cut_off: float,
        heartbeat: float,
        begin_drain: Callable[[float | None], None],
    ) -> None:
        self._worker_id = worker_id
        self._active = active
        self._slots = slots
        self._lanes = lanes
        self._leases = leases
        self._cut_off = cut_off
        self._heartbeat = heartbeat
        self._begin_drain = begin_drain
        self._draining = False

    def follow(self, tenant: TenantId, job_id: JobId, cursor: Sequence) -> ProgressReader:
        """A reader of a job's events from its cursor on. Raises NotOwner and ReRead."""
        run = self._active.find(tenant, job_id)
        if run is None or run.log.end is LogEnd.NOT_OWNER:
            raise NotOwner(job_id)
        return ProgressReader(job_id, run.log, cursor, heartbeat=self._heartbeat)

    def status(self) -> WorkerStatus:
        """As it is now."""
        since_renewal = self._leases.since_proof()
        return WorkerStatus(
            worker_id=self._worker_id,
            state=self._state(since_renewal),
            slots=self._slots.count,
            free_slots=self._slots.free,
            lanes=self._lanes.served,
            since_renewal=since_renewal,
            at_risk=self._active.at_risk,
        )

    def drain(self, grace: float | None) -> int:
        """Begins the worker's end, like SIGTERM; answers how many runs go on. `grace` in seconds."""
        self._draining = True
        self._begin_drain(grace)
        return len(self._active)

    def note_drain(self) -> None:
        """The process has begun to end."""
        self._draining = True

    def _state(self, since_renewal: float) -> WorkerState:
        if self._draining:
            return WorkerState.DRAINING
        return WorkerState.CUT_OFF if since_renewal > self._cut_off else WorkerState.ACTIVE
