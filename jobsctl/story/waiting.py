"""What a job waits for now. Pure."""

from datetime import datetime

from google.protobuf.timestamp_pb2 import Timestamp

from hourglass.jobs.v1.admin_service_pb2 import Lane, LaneState
from hourglass.jobs.v1.job_pb2 import AttemptOutcome, Job, JobState
from jobsctl.jobs.lines import state_name
from jobsctl.story.facts import Facts
from presentation.values import moment, short_name, span
from servicekit.wire_time import datetime_of


def waits_for(facts: Facts) -> str:
    """One sentence or two: who has to do what, and what happens if nobody does."""
    match facts.job.state:
        case JobState.JOB_STATE_QUEUED:
            return _queued(facts)
        case JobState.JOB_STATE_RUNNING:
            return _running(facts)
        case JobState.JOB_STATE_HELD:
            return f"{_held(facts.job)}{_expiry(facts, 'it becomes FAILED')}"
        case JobState.JOB_STATE_FAILED:
            return _failed(facts.job)
        case _:
            return f"nothing: {state_name(facts.job.state)} is its end"


def _queued(facts: Facts) -> str:
    """Time in a closed lane does not count: nothing expires there."""
    if facts.lane is not None and facts.lane.state != LaneState.LANE_STATE_OPEN:
        return f"its lane: {_closed(facts.lane)}"
    return f"{_queued_in_open_lane(facts)}{_expiry(facts, 'it becomes EXPIRED')}"


def _queued_in_open_lane(facts: Facts) -> str:
    lane, ready = facts.lane, facts.job.ready_time
    if datetime_of(ready) > facts.now:
        what = "its schedule" if facts.job.state_cause == "CREATED" else "its back-off"
        return f"{what}: not claimed before {moment(ready)} ({_in(ready, facts.now)})"
    if lane is None:
        return f"a worker with a free slot for {facts.job.lane}"
    if _is_full(lane):
        return f"a slot in its lane: {lane.running_count} of {lane.max_running_count} run"
    counts = f"{lane.running_count} run and {lane.queued_count} wait there"
    return f"a worker with a free slot for {lane.lane}: {counts}"


def _is_full(lane: Lane) -> bool:
    return lane.HasField("max_running_count") and lane.running_count >= lane.max_running_count


def _closed(lane: Lane) -> str:
    state = short_name(LaneState, lane.state)
    cause = f" ({lane.state_cause})" if lane.state_cause else ""
    if lane.HasField("park_until_time"):
        return f"{lane.lane} is {state}{cause} until {moment(lane.park_until_time)}"
    return f"{lane.lane} is {state}{cause} until `jobsctl lanes resume {lane.lane} --reason ...`"


def _running(facts: Facts) -> str:
    job = facts.job
    attempt = next((a for a in job.attempts if a.outcome == AttemptOutcome.ATTEMPT_OUTCOME_RUNNING), None)
    who = f"{attempt.worker_id} (attempt {attempt.number})" if attempt else "its worker"
    if job.HasField("cancel_request_time"):
        return f"{who} to close its call: a cancel was asked for at {moment(job.cancel_request_time)}"
    if attempt is None or not attempt.HasField("send_time"):
        return f"{who} to call the provider"
    return f"the provider's answer to {who}, called {_ago(attempt.send_time, facts.now)}"


def _held(job: Job) -> str:
    decide = f"`jobsctl jobs resolve {job.job_id} retry|fail --reason ...`"
    return (
        f"a decision, because the outcome of an attempt is unknown: {decide}, the late result, or a look-up"
    )


def _failed(job: Job) -> str:
    if job.HasField("erase_time"):
        return "nothing: it FAILED, and its content was erased, so it cannot run again"
    return f"nothing, unless somebody wants another try: `jobsctl jobs retry {job.job_id} --reason ...`"


def _expiry(facts: Facts, what: str) -> str:
    if not facts.job.HasField("state_expire_time"):
        return ""
    at = facts.job.state_expire_time
    return f"; otherwise {what} at {moment(at)} ({_in(at, facts.now)})"


def _in(timestamp: Timestamp, now: datetime) -> str:
    left = (datetime_of(timestamp) - now).total_seconds()
    return f"in {span(left)}" if left > 0 else "now"


def _ago(timestamp: Timestamp, now: datetime) -> str:
    return f"{span(max(0.0, (now - datetime_of(timestamp)).total_seconds()))} ago"
