"""CancelJob: decided under the row's lock, so that what is answered is what happens."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from budget.core import Budget
from budget.postgres import Database, Record, Transaction
from jobs_store.creation import PolicyOf
from jobs_store.decisions import charge_of_cancel
from jobs_store.endings import Ended, Fence, Finish, finish_jobs
from jobs_store.errors import JobNotFound
from jobs_store.events import cancel_requested, state_changed
from jobs_store.identifiers import JobId, TenantId
from jobs_store.job_metrics import JobMetrics
from jobs_store.rate_card import RateCard
from jobs_store.statements import statement
from jobs_store.states import Cause, JobState
from jobs_store.stored_json import load_object


class CancelOutcome(StrEnum):
    """What was decided."""

    CANCELLED = "CANCELLED"
    CANCEL_REQUESTED = "CANCEL_REQUESTED"
    ALREADY_TERMINAL = "ALREADY_TERMINAL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancellation:
    """What was decided, and what ended the job if that did."""

    outcome: CancelOutcome
    endings: Sequence[tuple[Finish, Ended]] = ()


class JobCancellation:
    """Cancels jobs as the request role."""

    def __init__(self, database: Database, policy_of: PolicyOf, *, metrics: JobMetrics | None = None) -> None:
        self._database = database
        self._policy_of = policy_of
        self._metrics = metrics or JobMetrics()

    async def cancel(
        self, tenant: TenantId, job_id: JobId, *, principal: str, reason: str, budget: Budget
    ) -> CancelOutcome:
        """Cancel the job, or ask the run that has it to stop. A job that nobody runs ends at once.

        Raises JobNotFound.
        """
        policy = self._policy_of("cancel_job")
        async with self._database.transaction(budget, policy, tenants=[tenant]) as transaction:
            done = await cancel_job(transaction, tenant, job_id, principal=principal, reason=reason)
        self._metrics.written(done.endings)
        return done.outcome


async def cancel_job(
    transaction: Transaction, tenant: TenantId, job_id: JobId, *, principal: str, reason: str
) -> Cancellation:
    """As `JobCancellation.cancel`, in a transaction that does more."""
    row = await transaction.fetchrow(statement("lock_job"), tenant, job_id)
    if row is None:
        await _require_finished(transaction, tenant, job_id)
        return Cancellation(outcome=CancelOutcome.ALREADY_TERMINAL)
    if row["state"] == JobState.RUNNING:
        await transaction.fetch(statement("request_cancel"), tenant, job_id, principal, reason)
        return Cancellation(outcome=CancelOutcome.CANCEL_REQUESTED)
    charge = await _charge(transaction, tenant, job_id, row)
    fence = Fence(tenant=tenant, job_id=job_id, token=row["run_token"])
    ending = _ending(fence, charge, principal, reason)
    (ended,) = await finish_jobs(transaction, [ending])
    return Cancellation(outcome=CancelOutcome.CANCELLED, endings=[(ending, ended)])


async def _require_finished(transaction: Transaction, tenant: TenantId, job_id: JobId) -> None:
    """Ended when its row was looked for; where it stands by now is another matter, as long as it exists."""
    if await transaction.fetchrow(statement("read_position"), tenant, job_id) is None:
        raise JobNotFound(job_id)


async def _charge(transaction: Transaction, tenant: TenantId, job_id: JobId, row: Record) -> Decimal:
    """Dollars for what a held attempt delivered; a queued job has delivered nothing that anybody keeps."""
    if row["state"] != JobState.HELD:
        return Decimal(0)
    delivery = await transaction.fetchrow(statement("read_delivery"), tenant, job_id, row["attempt_number"])
    assert delivery is not None, "an unfinished job has its facts"
    return charge_of_cancel(
        RateCard.from_json(load_object(delivery["rate_card"])),
        input_estimate=delivery["input_token_estimate"],
        delivered_tokens=int(delivery["delivered_tokens"]),
    )


def _ending(fence: Fence, charge: Decimal, principal: str, reason: str) -> Finish:
    return Finish(
        fence=fence,
        state=JobState.CANCELLED,
        cause=Cause.USER_CANCEL,
        charge=charge,
        events=(
            cancel_requested(principal=principal, reason=reason),
            state_changed(JobState.CANCELLED, Cause.USER_CANCEL),
        ),
        cancel_principal=principal,
        cancel_reason=reason,
    )
