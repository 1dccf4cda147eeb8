"""RetryJob, ResolveJob, EraseJobContent: a decision, then the job as that left it."""

from dataclasses import dataclass

from budget.core import Budget
from jobs_store.identifiers import JobId, TenantId
from jobs_store.operator_decisions import Decision, OperatorDecisions, Resolution
from jobs_store.reading import JobReader, JobView
from jobs_store.signals import Notify, job_changed, jobs_ready
from jobs_store.states import JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """The job right after a decision. `replayed`: the request_id was known, and nothing was done now."""

    job: JobView
    replayed: bool


class JobDecider:
    """Carries decisions out, and wakes those who watch the job or could run it.

    Every method raises JobNotFound, RequestIdReused, and what `OperatorDecisions` says. The same request
    again is harmless, also after a commit that nobody heard of.
    """

    def __init__(self, decisions: OperatorDecisions, reader: JobReader, notify: Notify) -> None:
        self._decisions = decisions
        self._reader = reader
        self._notify = notify

    async def retry(self, decision: Decision, *, budget: Budget) -> Decided:
        """A FAILED job runs again."""
        is_new = await self._decisions.retry(decision, budget=budget)
        return await self._decided(decision, is_new=is_new, budget=budget)

    async def resolve(self, decision: Decision, resolution: Resolution, *, budget: Budget) -> Decided:
        """A HELD job runs again, or fails."""
        is_new = await self._decisions.resolve(decision, resolution, budget=budget)
        return await self._decided(decision, is_new=is_new, budget=budget)

    async def erase(self, decision: Decision, *, budget: Budget) -> Decided:
        """The content of a job that has ended goes."""
        is_new = await self._decisions.erase(decision, budget=budget)
        return await self._decided(decision, is_new=is_new, budget=budget)

    async def _decided(self, decision: Decision, *, is_new: bool, budget: Budget) -> Decided:
        if is_new:
            self._notify(job_changed(decision.tenant, decision.job_id))
        job = await self._read(decision.tenant, decision.job_id, budget=budget)
        if is_new and job.state is JobState.QUEUED:
            self._notify(jobs_ready(job.lane))
        return Decided(job=job, replayed=not is_new)

    async def _read(self, tenant: TenantId, job_id: JobId, *, budget: Budget) -> JobView:
        return (await self._reader.get(tenant, job_id, budget=budget)).job
