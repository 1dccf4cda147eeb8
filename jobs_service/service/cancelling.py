"""CancelJob: decided under the row's lock, then the job as that left it."""

from dataclasses import dataclass

from budget.core import Budget
from jobs_service.domain.caller import Caller
from jobs_store.cancellation import CancelOutcome, JobCancellation
from jobs_store.identifiers import JobId
from jobs_store.reading import JobReader, JobView
from jobs_store.signals import Notify, cancel_asked, job_changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """What was decided, and the job right after that."""

    outcome: CancelOutcome
    job: JobView


class JobCanceller:
    """Cancels jobs, and wakes those who run or watch them."""

    def __init__(self, cancellation: JobCancellation, reader: JobReader, notify: Notify) -> None:
        self._cancellation = cancellation
        self._reader = reader
        self._notify = notify

    async def cancel(self, caller: Caller, job_id: JobId, *, reason: str, budget: Budget) -> Cancelled:
        """Cancel the job, or ask its run to stop. Raises JobNotFound.

        The same request again is harmless: it answers what became of the first.
        """
        outcome = await self._cancellation.cancel(
            caller.tenant, job_id, principal=caller.user, reason=reason, budget=budget
        )
        self._tell(caller, job_id, outcome)
        detail = await self._reader.get(caller.tenant, job_id, budget=budget)
        return Cancelled(outcome=outcome, job=detail.job)

    def _tell(self, caller: Caller, job_id: JobId, outcome: CancelOutcome) -> None:
        match outcome:
            case CancelOutcome.CANCELLED:
                self._notify(job_changed(caller.tenant, job_id))
            case CancelOutcome.CANCEL_REQUESTED:
                self._notify(cancel_asked(caller.tenant, job_id))
            case CancelOutcome.ALREADY_TERMINAL:
                pass
