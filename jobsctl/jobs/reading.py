"""Reading jobs, and waiting for them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from hourglass.jobs.v1.job_pb2 import Job, JobState
from hourglass.jobs.v1.jobs_service_pb2 import (
    GetJobRequest,
    ListJobsRequest,
    ListJobsResponse,
    WaitJobRequest,
    WaitJobResponse,
)
from jobsctl import inputs
from jobsctl.exits import ExitCode, Failure
from jobsctl.jobs.lines import state_name
from jobsctl.jobs.tables import show_job, show_list
from jobsctl.session import LARGEST_PAGE, Session

TERMINAL: Final = frozenset(
    {
        JobState.JOB_STATE_SUCCEEDED,
        JobState.JOB_STATE_FAILED,
        JobState.JOB_STATE_CANCELLED,
        JobState.JOB_STATE_EXPIRED,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Which jobs, and how many; limit 0: all."""

    states: Sequence[str] = ()
    model: str = ""
    created_from: datetime | None = None
    created_before: datetime | None = None
    limit: int = 50
    page_token: str = ""


async def get(session: Session, job_id: str, *, content: bool) -> None:
    """One job with its attempts and its money."""
    request = GetJobRequest(job_id=job_id, include_attempts=True, include_content=content)
    answer = await session.call("GetJob", session.jobs.GetJob, request)
    if session.printer.json:
        session.printer.message(answer)
    else:
        show_job(session.printer, answer.job)


async def list_jobs(session: Session, listing: Listing) -> None:
    """Jobs, newest first, over as many pages as it takes."""
    found = ListJobsResponse(next_page_token=listing.page_token)
    while True:
        page = await session.call("ListJobs", session.jobs.ListJobs, _page_request(listing, found))
        found.jobs.extend(page.jobs)
        found.next_page_token = page.next_page_token
        if not page.next_page_token or (listing.limit and len(found.jobs) >= listing.limit):
            break
    _show_found(session, found)


async def wait(session: Session, job_id: str, *, content: bool) -> None:
    """Until the job has ended. Raises Failure when it did not succeed, or has not ended in the given time."""
    request = WaitJobRequest(job_id=job_id, include_content=content)
    with session.printer.waiting(f"job {job_id}") as tell:
        answer = await session.call("WaitJob", session.jobs.WaitJob, request)
        while answer.job.state not in TERMINAL and session.settings.timeout is None:
            tell(f"job {job_id} is {state_name(answer.job.state)}")
            answer = await session.call("WaitJob", session.jobs.WaitJob, request)
    _show_waited(session, answer)
    _require_end(session, answer.job)
    require_success(answer.job)


def _require_end(session: Session, job: Job) -> None:
    if job.state not in TERMINAL:
        raise Failure(
            "NOT_ENDED",
            f"the job is still {state_name(job.state)} after {session.settings.timeout:g} s",
            code=ExitCode.UNAVAILABLE,
        )


def require_success(job: Job) -> None:
    """Raises Failure for a job that ended otherwise than SUCCEEDED."""
    if job.state != JobState.JOB_STATE_SUCCEEDED:
        name = state_name(job.state)
        raise Failure(f"JOB_{name}", f"the job ended {name}, because of {job.state_cause}")


def _page_request(listing: Listing, found: ListJobsResponse) -> ListJobsRequest:
    wanted = listing.limit - len(found.jobs) if listing.limit else LARGEST_PAGE
    return ListJobsRequest(
        page_size=min(wanted, LARGEST_PAGE),
        page_token=found.next_page_token,
        states=[JobState.Value(f"JOB_STATE_{state.upper()}") for state in listing.states],
        model=listing.model,
        create_time_from=inputs.time(listing.created_from),
        create_time_before=inputs.time(listing.created_before),
    )


def _show_found(session: Session, found: ListJobsResponse) -> None:
    if session.printer.json:
        session.printer.message(found)
        return
    show_list(session.printer, found.jobs)
    if found.next_page_token:
        session.printer.remark(f"there are more: --limit 0 lists all, --page-token {found.next_page_token}")


def _show_waited(session: Session, answer: WaitJobResponse) -> None:
    if session.printer.json:
        session.printer.message(answer)
    else:
        show_job(session.printer, answer.job)
