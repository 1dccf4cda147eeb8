"""Owns the runs: begins them, holds on to their tasks, and ends them when the process does."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import structlog

from jobs_store.runs import Held
from jobs_store.signals import cancel_asked, job_changed
from worker.active import Run
from worker.event_log import EventLog
from worker.lease import Lease
from worker.outcome import Stop
from worker.progress import Progress

if TYPE_CHECKING:
    from jobs_store.endings import Verdict
    from jobs_store.runs import Claimed
    from jobs_store.signals import Notify
    from jobs_store.subscriptions import Subscriptions
    from worker.active import ActiveRuns
    from worker.event_log import LogLimits
    from worker.flusher import Flusher
    from worker.lease import Leases
    from worker.metrics import RunMetrics
    from worker.run import Runner
    from worker.slots import Slots

_log = structlog.stdlib.get_logger("hourglass.worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunKit:
    """What every run is made with. coalesce: seconds in which chunks are joined into one delta."""

    worker_id: str
    log_limits: LogLimits
    coalesce: float


class Supervisor:
    """One task a run, in a group that `run` owns."""

    def __init__(
        self,
        runner: Runner,
        *,
        active: ActiveRuns,
        slots: Slots,
        leases: Leases,
        flusher: Flusher,
        subscriptions: Subscriptions,
        notify: Notify,
        metrics: RunMetrics,
        kit: RunKit,
    ) -> None:
        self.draining = asyncio.Event()
        """Set once runs that were not sent are given back."""
        self._runner = runner
        self._active = active
        self._slots = slots
        self._leases = leases
        self._flusher = flusher
        self._subscriptions = subscriptions
        self._notify = notify
        self._metrics = metrics
        self._kit = kit
        self._tasks: set[asyncio.Task[None]] = set()
        self._group: asyncio.TaskGroup

    async def run(self, stop: asyncio.Event) -> None:
        """Owns the runs until `stop` is set and the last one has ended."""
        async with asyncio.TaskGroup() as self._group:
            await stop.wait()

    def begin(self, claimed: Claimed, *, sent_at: float) -> None:
        """Runs a job; `sent_at` is the monotonic instant before its claim was sent."""
        self._slots.take(1)
        run = self._make(claimed, sent_at=sent_at)
        self._active.add(run)
        self._leases.add(run.lease)
        if self.draining.is_set():
            run.interrupt.order(Stop.SHUTDOWN)
        task = self._group.create_task(self._see_through(run), name=f"run {claimed.job_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._notify(job_changed(claimed.tenant, claimed.job_id))
        self._metrics.claimed(claimed)

    async def drain(self, *, grace: float, ending: float) -> None:
        """Gives back what was not sent; the rest gets `grace` seconds, and then `ending` to write its end."""
        self.draining.set()
        _log.info("draining", runs=len(self._active), grace=grace)
        self._stop(sent=False)
        await self._wait(grace)
        self._stop(sent=True)
        await self._wait(ending)
        for task in tuple(self._tasks):
            _log.error("a run did not end in time: it is left to the reaper", run=task.get_name())
            task.cancel()

    def _stop(self, *, sent: bool) -> None:
        for run in self._active:
            if sent or not run.sent:
                run.interrupt.order(Stop.SHUTDOWN)

    async def _wait(self, seconds: float) -> None:
        if self._tasks and seconds > 0:
            await asyncio.wait(self._tasks, timeout=seconds)

    def _make(self, claimed: Claimed, *, sent_at: float) -> Run:
        log = EventLog(claimed, worker_id=self._kit.worker_id, limits=self._kit.log_limits)
        held = Held(tenant=claimed.tenant, job_id=claimed.job_id, token=claimed.token)
        loop = asyncio.get_running_loop()
        run: Run

        def written() -> None:
            self._flusher.note(run)

        def tell(verdict: Verdict) -> None:
            loop.call_soon_threadsafe(run.tell, verdict)

        run = Run(
            claimed=claimed,
            log=log,
            lease=Lease(held=held, tell=tell, proved_at=sent_at),
            progress=Progress(log, window=self._kit.coalesce, written=written),
        )
        return run

    async def _see_through(self, run: Run) -> None:
        claimed = run.claimed
        cancel = cancel_asked(claimed.tenant, claimed.job_id)
        try:
            with self._subscriptions.calling(partial(self._leases.ask, run.lease), cancel):
                await self._runner.execute(run)
        except Exception:  # noqa: BLE001 - the others go on; a run that is left like this is the reaper's
            _log.exception("a run broke off", job=str(claimed.job_id))
        finally:
            self._leases.remove(run.lease)
            self._active.remove(run)
            run.let_go()
            self._slots.give_back()
