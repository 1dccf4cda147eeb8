"""The runs of this process: what one is while it goes on, and which there are."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, assert_never

from jobs_store.endings import Verdict
from worker.event_log import LogEnd
from worker.interrupt import Interrupt
from worker.outcome import Stop

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from jobs_store.identifiers import JobId, TenantId
    from jobs_store.runs import Claimed, Held
    from worker.event_log import EventLog
    from worker.lease import Lease
    from worker.progress import Progress


@dataclass(slots=True, kw_only=True, eq=False)
class Run:
    """One claimed job on its way. `sent`: its start step is taken, so its provider may be working,
    since `send_time`."""

    claimed: Claimed
    log: EventLog
    lease: Lease
    progress: Progress
    interrupt: Interrupt = field(default_factory=Interrupt)
    sent: bool = False
    send_time: datetime | None = None

    @property
    def held(self) -> Held:
        """What the store knows the run by."""
        return self.lease.held

    def let_go(self) -> None:
        """It has ended; nobody calls it back, so it is freed at once, text and all, without the collector."""
        self.lease.tell = _nobody
        self.progress.written = _nobody

    def tell(self, verdict: Verdict) -> None:
        """Hears what one of the run's own writes met. On the main loop's thread only.

        A held job goes on, for its answer may still be accepted; but its log is not the run's any more.
        """
        match verdict:
            case Verdict.CANCEL_REQUESTED:
                self.interrupt.order(Stop.CANCEL_REQUESTED)
            case Verdict.LEASE_LOST:
                self.log.close(LogEnd.NOT_OWNER)
                self.interrupt.order(Stop.LEASE_LOST)
            case Verdict.HELD:
                self.log.close(LogEnd.NOT_OWNER)
            case Verdict.OK | Verdict.BUSY | Verdict.NOT_DUE:
                pass
            case _:
                assert_never(verdict)


class ActiveRuns:
    """Every run of this process, whatever became of its lease."""

    def __init__(self) -> None:
        self._runs: set[Run] = set()
        self._newest: dict[tuple[TenantId, JobId], Run] = {}

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(tuple(self._runs))

    def add(self, run: Run) -> None:
        """A run began."""
        self._runs.add(run)
        self._newest[_key(run)] = run

    def remove(self, run: Run) -> None:
        """A run ended."""
        self._runs.discard(run)
        if self._newest.get(_key(run)) is run:
            del self._newest[_key(run)]

    def find(self, tenant: TenantId, job_id: JobId) -> Run | None:
        """The newest run of a job, if this process has one."""
        return self._newest.get((tenant, job_id))

    @property
    def at_risk(self) -> Decimal:
        """What the runs that were sent may cost at worst, in dollars."""
        return sum((run.claimed.terms.attempt_worst_case for run in self._runs if run.sent), Decimal(0))


def _key(run: Run) -> tuple[TenantId, JobId]:
    return run.claimed.tenant, run.claimed.job_id


def _nobody(*_: object) -> None:
    """The run has ended."""
