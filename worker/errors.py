"""What the worker refuses, each with the reason that a caller can switch on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobs_store.identifiers import JobId


class NotOwner(Exception):
    """The worker does not run that job, or not any more."""

    reason = "NOT_OWNER"

    def __init__(self, job_id: JobId) -> None:
        self.metadata = {"job_id": str(job_id)}
        super().__init__(f"this worker does not run job {job_id} now")


class ReRead(Exception):
    """What follows the cursor is not held any more, or the reader was too slow."""

    reason = "RE_READ"

    def __init__(self, job_id: JobId) -> None:
        self.metadata = {"job_id": str(job_id)}
        super().__init__(f"read the events of job {job_id} from the store, then come back")
