"""What a story is told from. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from hourglass.jobs.v1.admin_service_pb2 import Lane
from hourglass.jobs.v1.event_pb2 import JobEvent
from hourglass.jobs.v1.job_pb2 import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """A job, its log without the text, and its lane, as they were at `now`.

    no_log: why there are no events; empty when there are. lane: None when it was not asked for or not told.
    """

    job: Job
    events: Sequence[JobEvent]
    now: datetime
    no_log: str = ""
    lane: Lane | None = None
