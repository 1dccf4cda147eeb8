"""The reaper: the only takeover path, and what ends waits that nobody else ends.

Runs in every process that has Postgres, as the worker role. What it finds it finds without locks; what it
decides is checked again under the lock, so two reapers, or a reaper and a run, cannot both have their way.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias, TypeVar

import structlog

from budget.core import Budget
from budget.errors import ConstraintViolation
from budget.policy import Policy
from budget.postgres import Database, Record, Transaction
from jobs_store.attempts import LEASE_EXPIRED, AttemptEnd, ProviderCost
from jobs_store.call_reaping import CALL_GRACE, CallReaping
from jobs_store.creation import PolicyOf
from jobs_store.decisions import (
    Decision,
    Fail,
    Hold,
    Jitter,
    Requeue,
    RetryTiming,
    charge_of_cancel,
    decide,
)
from jobs_store.endings import Due, Ended, Fence, Finish, Return, Verdict, finish_jobs, requeue_jobs
from jobs_store.errors import AlreadySettled
from jobs_store.events import NewEvent, attempt_ended, cancel_requested, state_changed
from jobs_store.job_metrics import JobMetrics
from jobs_store.new_job import SPEC_VERSION
from jobs_store.rate_card import RateCard
from jobs_store.runs import tally_of, terms_of
from jobs_store.statements import statement
from jobs_store.states import AttemptOutcome, Cause, ErrorClass, JobState
from jobs_store.stored_json import load_object

AnyEnding = TypeVar("AnyEnding", Finish, Return)
Write: TypeAlias = Callable[[Transaction, list[AnyEnding]], Awaitable[list[Ended]]]

_log = structlog.stdlib.get_logger("hourglass.reaper")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaped:
    """How many jobs one round moved on, how many calls it settled, and whether a page was full, so that more
    may wait.

    oldest_lease: for how many seconds the oldest lease had been over that it found.
    """

    taken_over: int
    expired: int
    hold_ended: int
    calls_settled: int = 0
    oldest_lease: float = 0.0
    more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OldestSnapshot:
    """How far the oldest snapshot in the database holds vacuum back, in transactions and seconds."""

    transactions: int
    seconds: float


class Reaper:
    """One round of reaping at a time; the loop around it is the process's."""

    def __init__(
        self,
        database: Database,
        policy_of: PolicyOf,
        *,
        timing: RetryTiming,
        jitter: Jitter,
        page_size: int,
        call_grace: float = CALL_GRACE,
        metrics: JobMetrics | None = None,
    ) -> None:
        self._metrics = metrics or JobMetrics()
        self._database = database
        self._policy_of = policy_of
        self._timing = timing
        self._jitter = jitter
        self._page_size = page_size
        self._calls = CallReaping(
            database, policy_of, grace=call_grace, page_size=page_size, metrics=self._metrics
        )

    async def reap(self, *, budget: Budget) -> Reaped:
        """Take over expired runs, expire jobs that waited too long, end holds, settle calls: one page of
        each."""
        runs = await self._find("find_expired_runs", SPEC_VERSION, budget=budget)
        queued = await self._find("find_expired_queued", budget=budget)
        held = await self._find("find_expired_held", budget=budget)
        taken_over = await self._take_over(runs, budget=budget)
        expired = await self._finish([_queue_timeout(row) for row in queued], budget=budget)
        hold_ended = await self._finish([_hold_timeout(row) for row in held], budget=budget)
        calls_settled = await self._calls.settle_overdue(budget=budget)
        full = max(len(runs), len(queued), len(held), calls_settled) >= self._page_size
        return Reaped(
            taken_over=taken_over,
            expired=expired,
            hold_ended=hold_ended,
            calls_settled=calls_settled,
            oldest_lease=max((row["overdue"] for row in runs), default=0.0),
            more=full,
        )

    async def ensure_partitions(self, *, weeks_ahead: int, budget: Budget) -> int:
        """Make the partitions of the coming weeks; answers how many were missing."""
        policy = self._policy_of("ensure_partitions")
        rows = await self._database.fetch(budget, policy, statement("ensure_partitions"), weeks_ahead)
        return int(rows[0]["made"])

    async def oldest_snapshot(self, *, budget: Budget) -> OldestSnapshot | None:
        """What holds vacuum back most; None when the database's owner may not see other sessions."""
        name = "read_oldest_snapshot"
        (row,) = await self._database.fetch(budget, self._policy_of(name), statement(name))
        if row["transactions"] is None:
            return None
        return OldestSnapshot(transactions=row["transactions"], seconds=row["seconds"])

    async def _find(self, name: str, *arguments: object, budget: Budget) -> list[Record]:
        policy = self._policy_of(name)
        return await self._database.fetch(budget, policy, statement(name), self._page_size, *arguments)

    async def _take_over(self, rows: list[Record], *, budget: Budget) -> int:
        endings = [self._takeover(row) for row in rows]
        finishes = [ending for ending in endings if isinstance(ending, Finish)]
        returns = [ending for ending in endings if isinstance(ending, Return)]
        finished = await self._finish(finishes, budget=budget)
        return finished + await self._requeue(returns, budget=budget)

    def _takeover(self, row: Record) -> Finish | Return:
        end = _end_of_lost_attempt(row)
        if row["cancel_request_time"] is not None:
            return _cancelled(row, end)
        decision = decide(
            end,
            terms=terms_of(row),
            tally=tally_of(row),
            timing=self._timing,
            jitter=self._jitter,
            crashed=True,
        )
        return _taken_over(row, end, decision)

    async def _finish(self, endings: list[Finish], *, budget: Budget) -> int:
        return await self._write(endings, finish_jobs, self._policy_of("finish_jobs"), budget=budget)

    async def _requeue(self, endings: list[Return], *, budget: Budget) -> int:
        return await self._write(endings, requeue_jobs, self._policy_of("requeue_jobs"), budget=budget)

    async def _write(
        self, endings: list[AnyEnding], write: Write[AnyEnding], policy: Policy, *, budget: Budget
    ) -> int:
        """Writes a page at once; when one of it cannot be written, the others are, each by itself."""
        if not endings:
            return 0
        try:
            async with self._database.transaction(budget, policy) as transaction:
                free = await _lock_free(transaction, endings)
                ended = await write(transaction, free) if free else []
            self._metrics.written(zip(free, ended, strict=True))
            return _count(ended)
        except (ConstraintViolation, AlreadySettled) as error:
            if len(endings) == 1:
                _log.exception("a job cannot be ended", job=str(endings[0].fence.job_id), reason=error.reason)
                return 0
        return sum([await self._write([ending], write, policy, budget=budget) for ending in endings])


async def _lock_free(transaction: Transaction, endings: list[AnyEnding]) -> list[AnyEnding]:
    """Those whose rows nobody else has locked: a reaper never waits for a job. They are locked now."""
    tenants, jobs = [e.fence.tenant for e in endings], [e.fence.job_id for e in endings]
    rows = await transaction.fetch(statement("lock_free_jobs"), tenants, jobs)
    return [endings[row["ordinal"] - 1] for row in rows]


def _count(ended: list[Ended]) -> int:
    return sum(each.verdict is Verdict.OK for each in ended)


def _end_of_lost_attempt(row: Record) -> AttemptEnd:
    """Before the send nothing was bought; after it nobody knows."""
    if row["send_time"] is None:
        return AttemptEnd(outcome=AttemptOutcome.NOT_SENT, cause=LEASE_EXPIRED, counted=False)
    return AttemptEnd(
        outcome=AttemptOutcome.UNKNOWN,
        cause=LEASE_EXPIRED,
        counted=True,
        error_class=ErrorClass.UNKNOWN,
        cost=ProviderCost.unknown(row["attempt_worst_case"]),
    )


def _fence(row: Record, due: Due) -> Fence:
    return Fence(
        tenant=row["tenant_id"],
        job_id=row["id"],
        token=row.get("run_token"),
        due=due,
        was_sent=row.get("send_time") is not None,
    )


def _taken_over(row: Record, end: AttemptEnd, decision: Decision) -> Finish | Return:
    fence = _fence(row, Due.LEASE)
    match decision:
        case Fail(cause=cause):
            return _failed(fence, cause, attempt_ended(end), end)
        case Requeue(cause=cause, delay=delay, crashed=crashed):
            events = (*attempt_ended(end), state_changed(JobState.QUEUED, cause))
            return Return(
                fence=fence,
                state=JobState.QUEUED,
                cause=cause,
                delay=delay,
                events=events,
                attempt=end,
                crashed=crashed,
            )
        case Hold(cause=cause, timeout=timeout):
            events = (*attempt_ended(end), state_changed(JobState.HELD, cause))
            return Return(
                fence=fence, state=JobState.HELD, cause=cause, delay=timeout, events=events, attempt=end
            )


def _failed(
    fence: Fence, cause: Cause, events: tuple[NewEvent, ...], attempt: AttemptEnd | None = None
) -> Finish:
    return Finish(
        fence=fence,
        state=JobState.FAILED,
        cause=cause,
        charge=Decimal(0),
        events=(*events, state_changed(JobState.FAILED, cause)),
        attempt=attempt,
    )


def _cancelled(row: Record, end: AttemptEnd) -> Finish:
    asked = cancel_requested(
        principal=row["cancel_principal"], reason=row["cancel_reason"], time=row["cancel_request_time"]
    )
    charge = charge_of_cancel(
        RateCard.from_json(load_object(row["rate_card"])),
        input_estimate=row["input_token_estimate"],
        delivered_tokens=int(row["delivered_tokens"]),
    )
    return Finish(
        fence=_fence(row, Due.LEASE),
        state=JobState.CANCELLED,
        cause=Cause.USER_CANCEL,
        charge=charge,
        events=(asked, *attempt_ended(end), state_changed(JobState.CANCELLED, Cause.USER_CANCEL)),
        attempt=end,
    )


def _queue_timeout(row: Record) -> Finish:
    return Finish(
        fence=_fence(row, Due.QUEUE),
        state=JobState.EXPIRED,
        cause=Cause.QUEUE_TIMEOUT,
        charge=Decimal(0),
        events=(state_changed(JobState.EXPIRED, Cause.QUEUE_TIMEOUT),),
    )


def _hold_timeout(row: Record) -> Finish:
    return _failed(_fence(row, Due.HOLD), Cause.HOLD_TIMEOUT, ())
