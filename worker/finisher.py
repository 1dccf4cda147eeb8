"""Writes how runs end, once each: under budgets of its own, for as long as the store is away.

Neither the attempt's timeout nor a shutdown cuts it short: what the provider has answered is paid for.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import structlog

from budget.core import Budget
from budget.errors import BudgetError, ConstraintViolation
from jobs_store.endings import Finish, Verdict
from jobs_store.events import EventKind, NewEvent
from jobs_store.identifiers import epoch_of
from jobs_store.signals import job_changed, jobs_ready
from jobs_store.states import AttemptOutcome, Cause, JobState
from worker.ending import EndedRun, Ending, cancelled, ending_of
from worker.event_log import LogEnd
from worker.metrics import attempt_of
from worker.outcome import Answered, Stop, Unsent, stop_of

if TYPE_CHECKING:
    from jobs_store.attempts import AttemptEnd
    from jobs_store.decisions import Jitter, RetryTiming
    from jobs_store.endings import Ended, Return
    from jobs_store.pacing import Backoff
    from jobs_store.runs import RunStore
    from jobs_store.signals import Notify
    from worker.active import Run
    from worker.flusher import Flusher
    from worker.group_commit import GroupCommit
    from worker.lane_alarm import LaneAlarm
    from worker.metrics import RunMetrics
    from worker.outcome import CallEnd

OUTCOMES_OF_TAKEOVERS: Final = frozenset({AttemptOutcome.UNKNOWN, AttemptOutcome.NOT_SENT})
"""What others write of a run that lost its lease; what else stands there is the run's own word."""
_log = structlog.stdlib.get_logger("hourglass.worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishRules:
    """timing, jitter: what decides about retries. backoff: pauses while the store is away.

    patience: seconds after which an ending is given up; the reaper then takes the job for lost.
    step: seconds for one of the single statements.
    faults: failures that are no outage, after which it is given up too.
    """

    timing: RetryTiming
    jitter: Jitter
    backoff: Backoff
    patience: float = 600.0
    step: float = 5.0
    faults: int = 6


@dataclass(slots=True, kw_only=True)
class Writing:
    """One ending being written."""

    run: Run
    ended: EndedRun
    budget: Budget
    cancel: bool
    tries: int = 0
    faults: int = 0
    in_doubt: AttemptOutcome | None = field(default=None)
    """What a try wanted to write that came to no answer: it may hold."""
    doubted: Ending | None = field(default=None)
    """The same, whole."""


class Finisher:
    """Ends runs."""

    def __init__(
        self,
        store: RunStore,
        finishes: GroupCommit[Finish, Ended],
        returns: GroupCommit[Return, Ended],
        *,
        flusher: Flusher,
        notify: Notify,
        metrics: RunMetrics,
        alarm: LaneAlarm,
        rules: FinishRules,
    ) -> None:
        self._store = store
        self._finishes = finishes
        self._returns = returns
        self._flusher = flusher
        self._notify = notify
        self._metrics = metrics
        self._alarm = alarm
        self._rules = rules

    async def end(self, run: Run, end: CallEnd) -> None:
        """Writes the run's ending until its row has taken it, or is not the run's any more."""
        if isinstance(end, Answered):
            self._alarm.answered(run.claimed.lane)
        run.progress.write_out()
        await self._flusher.settle(run)
        writing = self._begin(run, end)
        while writing.budget.remaining() > 0 and writing.faults < self._rules.faults:
            try:
                return await self._try(writing)
            except BudgetError as error:
                await self._take_breath(writing, error)
            except Exception:  # noqa: BLE001 - a few times; then the job is left to the reaper
                _log.exception("an ending failed", job=str(run.claimed.job_id))
                writing.tries += 1
                writing.faults += 1
                await self._pause(writing)
        self._give_up(writing)
        return None

    def _begin(self, run: Run, end: CallEnd) -> Writing:
        ended = EndedRun(run=run.claimed, end=end, delivered=run.progress.delivered, tail=run.log.tail())
        return Writing(
            run=run,
            ended=ended,
            budget=Budget.for_work(self._rules.patience),
            cancel=stop_of(end) is Stop.CANCEL_REQUESTED,
        )

    async def _try(self, writing: Writing) -> None:
        if stop_of(writing.ended.end) is Stop.LEASE_LOST:
            return await self._lose(writing, writing.ended.attempt)
        if writing.run.log.in_doubt:
            await self._find_out_what_is_durable(writing)
        ending = await self._ending(writing)
        try:
            result = await self._write(writing, ending)
        except BudgetError as error:
            if not isinstance(error, ConstraintViolation):
                writing.in_doubt = attempt_of(ending.write).outcome
                writing.doubted = ending
            raise
        match result.verdict:
            case Verdict.OK:
                self._took(writing.run, ending, result)
            case Verdict.CANCEL_REQUESTED:
                writing.cancel = True
                await self._try(writing)
            case Verdict.LEASE_LOST | Verdict.HELD | Verdict.BUSY | Verdict.NOT_DUE:
                await self._lose(writing, attempt_of(ending.write), ending)
        return None

    async def _find_out_what_is_durable(self, writing: Writing) -> None:
        """A late result goes into an epoch of its own, where text that is in the log would be told again."""
        run = writing.run
        last = await self._store.last_event(run.held, run.claimed.epoch, budget=self._step(writing))
        run.log.flushed(last)
        writing.ended = replace(writing.ended, tail=run.log.tail())

    async def _ending(self, writing: Writing) -> Ending:
        if not writing.cancel:
            return await self._decided(writing)
        request = await self._store.cancel_request(writing.run.held, budget=self._step(writing))
        return cancelled(writing.ended, request)

    async def _decided(self, writing: Writing) -> Ending:
        """No job ends because of a cost that an earlier run has corrected since the claim."""
        ending = self._ending_of(writing.ended)
        if ending.write.cause is not Cause.PROVIDER_COST_LIMIT:
            return ending
        tally = await self._store.tally(writing.run.held, budget=self._step(writing))
        return ending if tally is None else self._ending_of(writing.ended.with_tally(tally))

    def _ending_of(self, ended: EndedRun) -> Ending:
        return ending_of(ended, timing=self._rules.timing, jitter=self._rules.jitter)

    async def _write(self, writing: Writing, ending: Ending) -> Ended:
        if ending.park is not None:
            lane = writing.run.claimed.lane
            await self._store.park_lane(
                lane, duration=ending.park.duration, cause=ending.park.cause, budget=self._step(writing)
            )
            self._alarm.parked(lane, ending.park, attempt_of(ending.write).error_class)
        if isinstance(ending.write, Finish):
            return await self._finishes.submit(ending.write)
        return await self._returns.submit(ending.write)

    def _took(self, run: Run, ending: Ending, result: Ended) -> None:
        claimed, write = run.claimed, ending.write
        if run.log.watched:
            _show_end(run, ending, result)
        run.log.close(LogEnd.COMPLETE)
        self._notify(job_changed(claimed.tenant, claimed.job_id))
        if write.state is JobState.QUEUED:
            self._notify(jobs_ready(claimed.lane))
        self._metrics.ended(claimed, write, result, send_time=run.send_time)

    async def _lose(self, writing: Writing, attempt: AttemptEnd, ending: Ending | None = None) -> None:
        """The row is not the run's any more, or does not want this outcome; its cost is still its own."""
        run, number = writing.run, writing.run.claimed.attempt_number
        if await self._is_there_already(writing, attempt):
            run.log.close(LogEnd.COMPLETE)
            if holds := writing.doubted or ending:
                self._metrics.found_to_hold(run.claimed, holds.write)
            return
        run.log.close(LogEnd.NOT_OWNER)
        if isinstance(writing.ended.end, Unsent):
            return
        if await self._store.record_lost_attempt(run.held, number, attempt, budget=self._step(writing)):
            self._metrics.late_cost(run.claimed, attempt)
        if isinstance(writing.ended.end, Answered):
            self._metrics.stale_result(run.claimed)

    async def _is_there_already(self, writing: Writing, attempt: AttemptEnd) -> bool:
        """Whether a try whose answer was lost holds, be it one that the group commit has made again."""
        if writing.in_doubt is None and attempt.outcome in OUTCOMES_OF_TAKEOVERS:
            return False
        stored = await self._store.outcome_of(
            writing.run.held, writing.run.claimed.attempt_number, budget=self._step(writing)
        )
        return stored is (writing.in_doubt or attempt.outcome)

    async def _take_breath(self, writing: Writing, error: BudgetError) -> None:
        writing.tries += 1
        if isinstance(error, ConstraintViolation):
            writing.faults += 1
        log = _log.warning if writing.tries == 1 else _log.debug
        log("an ending waits", job=str(writing.run.claimed.job_id), reason=error.reason)
        await self._pause(writing)

    async def _pause(self, writing: Writing) -> None:
        await asyncio.sleep(min(self._rules.backoff.pause(writing.tries), writing.budget.remaining()))

    def _give_up(self, writing: Writing) -> None:
        writing.run.log.close(LogEnd.NOT_OWNER)
        self._metrics.given_up(writing.run.claimed)
        _log.error(
            "an ending was given up: the job is left to the reaper",
            job=str(writing.run.claimed.job_id),
            outcome=writing.ended.attempt.outcome,
        )

    def _step(self, writing: Writing) -> Budget:
        return writing.budget.child(self._rules.step)


def _show_end(run: Run, ending: Ending, result: Ended) -> None:
    """Shows the log's readers the last events as the statement has written them, if that is their epoch."""
    if result.last_sequence is not None and epoch_of(result.last_sequence) == run.claimed.epoch:
        assert result.time is not None, "an ending that was taken has its time"
        last = [_as_stored(event, result) for event in ending.last_events]
        run.log.complete(run.log.place_events(last, time=result.time))


def _as_stored(event: NewEvent, result: Ended) -> NewEvent:
    """The event with what the statement has added to it."""
    if event.kind is not EventKind.STATE_CHANGED:
        return event
    attributes = dict(event.attributes)
    if attributes.get("terminal"):
        attributes["captured"] = f"{result.captured:f}"
    if result.ready_time is not None and attributes["state"] == JobState.QUEUED:
        attributes["ready_time"] = result.ready_time.isoformat()
    return replace(event, attributes=attributes)
