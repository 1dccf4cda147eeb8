"""Asking for everything that a story is told from: the job, its log, and where it queues."""

from datetime import UTC, datetime
from typing import Final

from budget.errors import BudgetError, UpstreamError
from hourglass.jobs.v1.admin_service_pb2 import Lane, ListLanesRequest
from hourglass.jobs.v1.event_pb2 import JobEvent, JobEventKind
from hourglass.jobs.v1.job_pb2 import Job, JobState
from hourglass.jobs.v1.jobs_service_pb2 import GetJobRequest, WatchJobRequest
from jobsctl.printer import as_json
from jobsctl.session import LARGEST_PAGE, Session
from jobsctl.story.facts import Facts
from jobsctl.story.telling import tell
from jobsctl.story.waiting import waits_for

NOT_KEPT: Final = "OUT_OF_RANGE"
WITHOUT_TEXT: Final = tuple(
    number for number in JobEventKind.values() if number not in {0, JobEventKind.JOB_EVENT_KIND_TOKEN_DELTA}
)


async def explain(session: Session, job_id: str) -> None:
    """Tell the story of a job."""
    facts = await gather(session, job_id)
    if session.printer.json:
        session.printer.object(
            {
                "job": as_json(facts.job),
                "events": [as_json(event) for event in facts.events],
                "lane": as_json(facts.lane) if facts.lane else None,
                "waits_for": waits_for(facts),
            }
        )
    else:
        tell(facts, session.printer)


async def gather(session: Session, job_id: str) -> Facts:
    """The job as it is, after its log: what the log tells, the job has."""
    events, no_log = await _log(session, job_id)
    request = GetJobRequest(job_id=job_id, include_attempts=True)
    job = (await session.call("GetJob", session.jobs.GetJob, request)).job
    lane = await _lane(session, job)
    return Facts(job=job, events=events, no_log=no_log, lane=lane, now=datetime.now(UTC))


async def _log(session: Session, job_id: str) -> tuple[list[JobEvent], str]:
    """The durable events but for the text, and why there are none."""
    request = WatchJobRequest(job_id=job_id, kinds=WITHOUT_TEXT, replay_only=True)
    events: list[JobEvent] = []
    try:
        async with session.stream("WatchJob", session.jobs.WatchJob, request) as messages:
            events += [m.event async for m in messages if m.WhichOneof("message") == "event"]
    except UpstreamError as error:
        if error.code != NOT_KEPT:
            raise
        return [], "its events are not kept any more"
    return events, ""


async def _lane(session: Session, job: Job) -> Lane | None:
    """Where a QUEUED job queues; None when that cannot be told, which a story does without."""
    if job.state != JobState.JOB_STATE_QUEUED:
        return None
    request = ListLanesRequest(page_size=LARGEST_PAGE)
    try:
        while True:
            page = await session.call("ListLanes", session.admin.ListLanes, request)
            for lane in page.lanes:
                if lane.lane == job.lane:
                    return lane
            if not page.next_page_token:
                return None
            request.page_token = page.next_page_token
    except BudgetError:
        return None
