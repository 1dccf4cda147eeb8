"""What operators decide about single jobs: another run, the end of a hold or of the job, the erasure of
content.

Each decision is carried out once a request_id, leaves an audit row, and is made under the job's lock.
"""

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import assert_never

from budget.core import Budget
from budget.postgres import Database, Record, Transaction
from jobs_store.cancellation import CancelOutcome, cancel_job
from jobs_store.creation import PolicyOf
from jobs_store.endings import Ended, Fence, Finish, Return, finish_jobs, requeue_jobs
from jobs_store.errors import (
    ContentGone,
    CostLimitReached,
    InsufficientFunds,
    JobNotFailed,
    JobNotFound,
    JobNotHeld,
    JobNotTerminal,
    JobTerminal,
    QueueFull,
    WrongJobState,
)
from jobs_store.events import NewEvent, state_changed
from jobs_store.identifiers import JobId, RunToken, TenantId
from jobs_store.job_metrics import JOB, JobMetrics
from jobs_store.operator_requests import Asked, OperatorRequest, take_request
from jobs_store.statements import statement
from jobs_store.states import Cause, JobState


class Action(StrEnum):
    """What is decided, as the audit log has it."""

    RETRY = "RETRY_JOB"
    RESOLVE = "RESOLVE_JOB"
    ERASE = "ERASE_JOB_CONTENT"
    CANCEL = "CANCEL_JOB"


class Resolution(StrEnum):
    """What becomes of a held job."""

    RETRY = "RETRY"
    FAIL = "FAIL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Which job, and who decides why. The request_id names the decision: the same again changes nothing."""

    tenant: TenantId
    job_id: JobId
    request_id: str
    actor: str
    reason: str


class OperatorDecisions:
    """Carries decisions out, as the request role. Every method answers False (`cancel`: None) when its
    request_id was known.

    Each raises JobNotFound, and RequestIdReused when the request_id has decided something else; then, as
    after every other refusal, nothing was written and the request_id is as free as it was.
    """

    def __init__(self, database: Database, policy_of: PolicyOf, *, metrics: JobMetrics | None = None) -> None:
        self._database = database
        self._policy_of = policy_of
        self._metrics = metrics or JobMetrics()

    async def retry(self, decision: Decision, *, budget: Budget) -> bool:
        """Send a FAILED job to the queue again, under a new reservation.

        Raises JobNotFailed, ContentGone, CostLimitReached, QueueFull, InsufficientFunds.
        """
        policy = self._policy_of("retry_job")
        async with self._database.transaction(budget, policy, tenants=[decision.tenant]) as transaction:
            if not await _take(transaction, decision, Action.RETRY):
                return False
            await _lock_failed(transaction, decision)
            row = await transaction.fetchrow(
                statement("retry_job"), decision.tenant, decision.job_id, decision.actor, decision.reason
            )
            assert row is not None, "a finished job has its facts"
            await _refuse_what_did_not_happen(transaction, decision, row)
        self._metrics.reserved(row["lane"], row["quoted_amount"], work=JOB)
        return True

    async def resolve(self, decision: Decision, resolution: Resolution, *, budget: Budget) -> bool:
        """End a hold: the job goes back to the queue, or fails and its money is released.

        Raises JobNotHeld; CostLimitReached for another attempt that could cost too much.
        """
        policy = self._policy_of("resolve_job")
        async with self._database.transaction(budget, policy, tenants=[decision.tenant]) as transaction:
            if not await _take(transaction, decision, Action.RESOLVE, resolution):
                return False
            fence = await _lock_held(transaction, decision)
            endings: list[tuple[Finish, Ended]] = []
            match resolution:
                case Resolution.RETRY:
                    await _require_cost_limit(transaction, decision)
                    await requeue_jobs(transaction, [_back_to_the_queue(fence, decision)])
                case Resolution.FAIL:
                    failed = [_failed(fence, decision)]
                    endings = list(zip(failed, await finish_jobs(transaction, failed), strict=True))
                case _:
                    assert_never(resolution)
        self._metrics.written(endings)
        return True

    async def cancel(self, decision: Decision, *, budget: Budget) -> CancelOutcome | None:
        """Cancel a job as its caller can; never ALREADY_TERMINAL. Raises JobTerminal."""
        policy = self._policy_of("cancel_job")
        async with self._database.transaction(budget, policy, tenants=[decision.tenant]) as transaction:
            if not await _take(transaction, decision, Action.CANCEL):
                return None
            done = await cancel_job(
                transaction,
                decision.tenant,
                decision.job_id,
                principal=decision.actor,
                reason=decision.reason,
            )
            if done.outcome is CancelOutcome.ALREADY_TERMINAL:
                raise JobTerminal(decision.job_id, await _state_of(transaction, decision))
        self._metrics.written(done.endings)
        return done.outcome

    async def erase(self, decision: Decision, *, budget: Budget) -> bool:
        """Erase payload, result and deltas of a job that has ended; rows of money stay.

        Raises JobNotTerminal. Content that is gone already stays gone, and the first erasure's time stays.
        """
        policy = self._policy_of("erase_job_content")
        async with self._database.transaction(budget, policy, tenants=[decision.tenant]) as transaction:
            if not await _take(transaction, decision, Action.ERASE):
                return False
            await _lock_finished(transaction, decision, JobNotTerminal)
            await transaction.execute(
                statement("erase_job_content"), decision.tenant, decision.job_id, decision.actor
            )
            return True


async def _take(
    transaction: Transaction, decision: Decision, action: Action, resolution: Resolution | None = None
) -> bool:
    """False when this very decision was carried out before. Raises RequestIdReused."""
    request = OperatorRequest(request_id=decision.request_id, actor=decision.actor, reason=decision.reason)
    asked = asked_of(decision.job_id, action, resolution)
    return await take_request(transaction, decision.tenant, request, asked)


def asked_of(job_id: JobId, action: Action, resolution: Resolution | None = None) -> Asked:
    """A decision as its request_id is remembered."""
    return Asked(
        action=action,
        content=(action, job_id, resolution),
        subject=f"job:{job_id}",
        details={} if resolution is None else {"resolution": resolution},
    )


async def _lock_failed(transaction: Transaction, decision: Decision) -> None:
    row = await _lock_finished(transaction, decision, JobNotFailed)
    if row["state"] != JobState.FAILED:
        raise JobNotFailed(decision.job_id, row["state"])
    if row["erase_time"] is not None:
        raise ContentGone(decision.job_id)


async def _lock_finished(
    transaction: Transaction, decision: Decision, refusal: type[WrongJobState]
) -> Record:
    row = await transaction.fetchrow(statement("lock_finished_job"), decision.tenant, decision.job_id)
    if row is None:
        raise refusal(decision.job_id, await _state_of(transaction, decision))
    return row


async def _lock_held(transaction: Transaction, decision: Decision) -> Fence:
    row = await transaction.fetchrow(statement("lock_job"), decision.tenant, decision.job_id)
    if row is None or row["state"] != JobState.HELD:
        state = row["state"] if row else await _state_of(transaction, decision)
        raise JobNotHeld(decision.job_id, state)
    return Fence(tenant=decision.tenant, job_id=decision.job_id, token=RunToken(row["run_token"]))


async def _state_of(transaction: Transaction, decision: Decision) -> str:
    row = await transaction.fetchrow(statement("read_position"), decision.tenant, decision.job_id)
    if row is None:
        raise JobNotFound(decision.job_id)
    return str(row["state"])


async def _require_cost_limit(transaction: Transaction, decision: Decision) -> None:
    row = await transaction.fetchrow(statement("read_spending"), decision.tenant, decision.job_id)
    assert row is not None, "a held job has its facts"
    if row["attempt_worst_case"] > row["cost_limit_left"]:
        raise CostLimitReached(decision.job_id)


async def _refuse_what_did_not_happen(transaction: Transaction, decision: Decision, row: Record) -> None:
    """Each step of the statement builds on the one before: the first that is missing names the reason."""
    if not row["has_payload"]:
        raise ContentGone(decision.job_id)
    if not row["cost_limit_left"]:
        raise CostLimitReached(decision.job_id)
    if not row["queue_had_room"]:
        raise QueueFull(decision.tenant)
    if not row["funds_sufficed"]:
        raise await _insufficient_funds(transaction, decision, required=row["quoted_amount"])


async def _insufficient_funds(
    transaction: Transaction, decision: Decision, *, required: Decimal
) -> InsufficientFunds:
    tenant = await transaction.fetchrow(statement("read_tenant"), decision.tenant)
    assert tenant is not None, "a tenant that has jobs exists"
    return InsufficientFunds(tenant=decision.tenant, required=required, available=tenant["available"])


def _back_to_the_queue(fence: Fence, decision: Decision) -> Return:
    return Return(
        fence=fence,
        state=JobState.QUEUED,
        cause=Cause.RESOLVED_RETRY,
        delay=0.0,
        events=(_decided(JobState.QUEUED, Cause.RESOLVED_RETRY, decision),),
    )


def _failed(fence: Fence, decision: Decision) -> Finish:
    return Finish(
        fence=fence,
        state=JobState.FAILED,
        cause=Cause.RESOLVED_FAIL,
        charge=Decimal(0),
        events=(_decided(JobState.FAILED, Cause.RESOLVED_FAIL, decision),),
    )


def _decided(state: JobState, cause: Cause, decision: Decision) -> NewEvent:
    return state_changed(state, cause, principal=decision.actor, reason=decision.reason)
