"""Makes the events of all runs durable, in batches, away from the path of the tokens."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from jobs_store.endings import Verdict
from jobs_store.pacing import pause
from worker.metrics import RunMetrics

if TYPE_CHECKING:
    from jobs_store.runs import Append
    from worker.active import Run
    from worker.group_commit import GroupCommit

MOST_EVENTS: Final = 1000
"""Of one log in one statement: after an outage a log may have many."""
_log = structlog.stdlib.get_logger("hourglass.worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushPace:
    """interval: seconds that an event waits at most. size: bytes of one log that do not wait for that.

    retry: seconds until the next try while the store is away.
    """

    interval: float = 0.2
    size: int = 8192
    retry: float = 0.5


class Flusher:
    """One for all runs of a process."""

    def __init__(
        self, appends: GroupCommit[Append, Verdict], pace: FlushPace, *, metrics: RunMetrics | None = None
    ) -> None:
        self._appends = appends
        self._pace = pace
        self._metrics = metrics or RunMetrics()
        self._waiting: set[Run] = set()
        self._flushing: dict[Run, asyncio.Task[None]] = {}
        self._due = asyncio.Event()
        self._urgent = asyncio.Event()

    def note(self, run: Run) -> None:
        """A run's log has something to flush. Never waits. A closed log is not the run's to write."""
        if run.log.end is not None:
            return
        self._waiting.add(run)
        self._due.set()
        if run.log.unflushed_size >= self._pace.size:
            self._urgent.set()

    async def settle(self, run: Run) -> None:
        """Flushes this run no more, and waits for the flush that is under way."""
        self._waiting.discard(run)
        flushing = self._flushing.get(run)
        if flushing is not None:
            await asyncio.wait({flushing})
        self._waiting.discard(run)

    async def run(self, stop: asyncio.Event) -> None:
        """Flushes until `stop` is set: by then every run has ended, and taken what was left with it."""
        async with asyncio.TaskGroup() as group:
            flushing = group.create_task(self._flush_for_ever(group), name="flush events")
            await stop.wait()
            flushing.cancel()

    async def _flush_for_ever(self, group: asyncio.TaskGroup) -> None:
        while True:
            await self._due.wait()
            await pause(self._pace.interval, self._urgent)
            self._due.clear()
            self._urgent.clear()
            for run in [run for run in self._waiting if run not in self._flushing]:
                self._waiting.discard(run)
                self._flushing[run] = group.create_task(self._flush(run), name="flush")

    async def _flush(self, run: Run) -> None:
        append = run.log.unflushed(most=MOST_EVENTS)
        try:
            verdict = await self._appends.submit(append)
        except Exception as error:  # noqa: BLE001 - the events stay in the log, and go with the next flush
            run.log.in_doubt = True
            _log.debug("events were not flushed", job=str(append.job_id), error=type(error).__name__)
            await asyncio.sleep(self._pace.retry)
        else:
            self._hear(run, append, verdict)
        finally:
            self._flushing.pop(run, None)
        if run.log.has_unflushed:
            self.note(run)

    def _hear(self, run: Run, append: Append, verdict: Verdict) -> None:
        if verdict in {Verdict.OK, Verdict.CANCEL_REQUESTED}:
            run.log.flushed(append.first_event + len(append.events) - 1)
        if verdict in {Verdict.LEASE_LOST, Verdict.HELD}:
            self._metrics.stale_append(run.claimed)
        if verdict is not Verdict.OK:
            run.tell(verdict)
