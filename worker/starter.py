"""The start step: the write right before the provider is called, for all runs that start at the same time."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from budget.errors import BudgetError, ConstraintViolation
from jobs_store.endings import Verdict
from jobs_store.runs import FIRST_FREE_EVENT, Start, Started

if TYPE_CHECKING:
    from jobs_store.pacing import Backoff
    from worker.active import Run
    from worker.group_commit import GroupCommit
    from worker.lease import Lease

_log = structlog.stdlib.get_logger("hourglass.worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class Starter:
    """Takes the start step. cut_off: seconds without a renewal after which none is taken."""

    starts: GroupCommit[Start, Started]
    backoff: Backoff
    cut_off: float

    async def start(self, run: Run) -> Started:
        """The verdict of the locked row. Waits for the store to come back; the run's interrupt ends the wait.

        Nothing was sent before it answers, so it can be asked again whatever became of the last try.
        """
        failures = 0
        while True:
            await self._until_renewed(run.lease)
            sent_at = time.monotonic()
            try:
                started = await self.starts.submit(_start_of(run))
            except ConstraintViolation:
                raise
            except BudgetError as error:
                failures += 1
                _log.debug("a start step waits", job=str(run.claimed.job_id), reason=error.reason)
                await asyncio.sleep(self.backoff.pause(failures))
            else:
                if started.verdict is Verdict.OK:
                    run.lease.prove(sent_at)
                return started

    async def _until_renewed(self, lease: Lease) -> None:
        while lease.age() > self.cut_off:  # noqa: ASYNC110 - it is proved by another thread
            await asyncio.sleep(self.backoff.first)


def _start_of(run: Run) -> Start:
    claimed = run.claimed
    return Start(
        tenant=claimed.tenant,
        job_id=claimed.job_id,
        token=claimed.token,
        event_number=FIRST_FREE_EVENT,
        provider=claimed.provider,
        provider_model=claimed.model,
    )
