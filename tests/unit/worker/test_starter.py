"""The start step: asked again while the store is away, never under a lease that may be over."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest

from budget.errors import DatabaseUnavailable
from jobs_store.endings import Verdict
from jobs_store.pacing import Backoff
from jobs_store.runs import Held, Started
from tests.unit.worker.claimed import MOMENT, claimed
from worker.active import Run
from worker.event_log import EventLog, LogLimits
from worker.lease import Lease, Leases
from worker.progress import Progress
from worker.starter import Starter

if TYPE_CHECKING:
    from jobs_store.runs import Start
    from worker.group_commit import GroupCommit

QUICK = Backoff(jitter=lambda _: 0.0, first=0.001)


class Starts:
    """A group commit that answers as told."""

    def __init__(self, *answers: Verdict | Exception) -> None:
        self.items: list[Start] = []
        self._answers = list(answers)

    async def submit(self, item: Start) -> Started:
        self.items.append(item)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return Started(verdict=answer, send_time=MOMENT)


def _starter(starts: Starts, *, cut_off: float = 24.0) -> Starter:
    return Starter(starts=cast("GroupCommit[Any, Any]", starts), backoff=QUICK, cut_off=cut_off)


def _run(*, age: float = 0.0) -> Run:
    job = claimed()
    lease = Lease(held=Held(tenant=job.tenant, job_id=job.job_id, token=job.token), tell=lambda _: None)
    lease.proved_at -= age
    log = EventLog(job, worker_id="w", limits=LogLimits())
    return Run(claimed=job, log=log, lease=lease, progress=Progress(log, window=0.0, written=lambda: None))


async def test_it_is_asked_again_while_the_store_is_away() -> None:
    away = DatabaseUnavailable(dependency="postgres")
    starts, run = Starts(away, away, Verdict.OK), _run(age=5.0)
    started = await _starter(starts).start(run)
    assert (Verdict.OK, 3) == (started.verdict, len(starts.items))
    assert run.lease.age() < 5.0


async def test_an_error_that_is_no_outage_is_not_asked_again() -> None:
    with pytest.raises(ValueError, match="broken"):
        await _starter(Starts(ValueError("broken"))).start(_run())


async def test_a_refusal_proves_no_lease() -> None:
    run = _run(age=5.0)
    started = await _starter(Starts(Verdict.LEASE_LOST)).start(run)
    assert Verdict.LEASE_LOST is started.verdict
    assert run.lease.age() >= 5.0


async def test_a_run_that_is_cut_off_waits_for_its_renewal() -> None:
    starts, run = Starts(Verdict.OK), _run(age=25.0)
    waiting = asyncio.create_task(_starter(starts).start(run))
    await asyncio.sleep(0.02)
    assert [] == starts.items
    run.lease.prove(run.lease.proved_at + 25.0)
    assert Verdict.OK is (await waiting).verdict


def test_a_process_is_cut_off_only_when_none_of_its_leases_was_proved() -> None:
    leases, old, young = Leases(), _run(age=30.0).lease, _run(age=1.0).lease
    assert 0.0 == leases.since_proof()
    leases.add(old)
    assert leases.since_proof() >= 30.0
    leases.add(young)
    assert 1.0 <= leases.since_proof() < 30.0
