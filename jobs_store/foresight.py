"""What decisions about many jobs would come to: for dry runs. Pure."""

from dataclasses import dataclass, field
from decimal import Decimal
from typing import assert_never

from jobs_store.bulk import BulkAction, BulkOrder, Outlook
from jobs_store.errors import (
    ContentGone,
    CostLimitReached,
    InsufficientFunds,
    JobNotFailed,
    JobNotFound,
    JobNotHeld,
    JobTerminal,
    QueueFull,
    RequestIdReused,
)
from jobs_store.identifiers import JobId, TenantId
from jobs_store.job_search import FoundJob
from jobs_store.operator_decisions import Resolution
from jobs_store.states import JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkOutcome:
    """What became of one job, or would.

    state: after the decision; None for a job that there is not. refused: why nothing was done, empty when it
    was. replayed: it was done by an earlier call.
    """

    tenant: TenantId
    job_id: JobId
    state: JobState | None
    refused: str = ""
    replayed: bool = False


@dataclass(slots=True, kw_only=True)
class Purse:
    """What a tenant would have left, as a dry run goes on."""

    available: Decimal
    queue_room: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Foresight:
    """Tells what decisions would come to, one after the other: what one takes, the next one lacks. No I/O."""

    order: BulkOrder
    purses: dict[TenantId, Purse] = field(default_factory=dict)

    def of(self, job: FoundJob, outlook: Outlook | None) -> BulkOutcome:
        """The same checks in the same order as the decisions make them."""
        if job.state is None or outlook is None:
            return BulkOutcome(tenant=job.tenant, job_id=job.job_id, state=None, refused=JobNotFound.reason)
        if outlook.known is not None:
            asked = self.order.asked_about(job.job_id)
            same = outlook.known == (asked.action, asked.digest)
            return _outcome(job, outlook.state, refused="" if same else RequestIdReused.reason, replayed=same)
        refused = self._refusal(job, outlook)
        return _outcome(job, outlook.state if refused else self._state_after(outlook), refused=refused)

    def _refusal(self, job: FoundJob, outlook: Outlook) -> str:
        match self.order.action:
            case BulkAction.RETRY:
                return self._refusal_of_retry(job, outlook)
            case BulkAction.RESOLVE:
                return self._refusal_of_resolution(outlook)
            case BulkAction.CANCEL:
                return JobTerminal.reason if outlook.state.terminal else ""
            case _:
                assert_never(self.order.action)

    def _refusal_of_retry(self, job: FoundJob, outlook: Outlook) -> str:
        if outlook.state is not JobState.FAILED:
            return JobNotFailed.reason
        if outlook.erased or not outlook.has_payload:
            return ContentGone.reason
        if not outlook.cost_limit_left:
            return CostLimitReached.reason
        return self._spend(job.tenant, outlook)

    def _spend(self, tenant: TenantId, outlook: Outlook) -> str:
        purse = self.purses.setdefault(
            tenant, Purse(available=outlook.available, queue_room=outlook.queue_room)
        )
        if purse.queue_room <= 0:
            return QueueFull.reason
        if purse.available < outlook.quoted_amount:
            return InsufficientFunds.reason
        purse.queue_room -= 1
        purse.available -= outlook.quoted_amount
        return ""

    def _refusal_of_resolution(self, outlook: Outlook) -> str:
        if outlook.state is not JobState.HELD:
            return JobNotHeld.reason
        if self.order.resolution is Resolution.RETRY and not outlook.cost_limit_left:
            return CostLimitReached.reason
        return ""

    def _state_after(self, outlook: Outlook) -> JobState:
        match self.order.action:
            case BulkAction.RETRY:
                return JobState.QUEUED
            case BulkAction.RESOLVE:
                return JobState.FAILED if self.order.resolution is Resolution.FAIL else JobState.QUEUED
            case BulkAction.CANCEL:
                return outlook.state if outlook.state is JobState.RUNNING else JobState.CANCELLED
            case _:
                assert_never(self.order.action)


def _outcome(job: FoundJob, state: JobState, *, refused: str, replayed: bool = False) -> BulkOutcome:
    return BulkOutcome(tenant=job.tenant, job_id=job.job_id, state=state, refused=refused, replayed=replayed)
