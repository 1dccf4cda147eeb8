"""Events of a job, by epoch and number."""

from typing import Any

from hourglass.jobs.v1.event_pb2 import AttemptStarted, JobEvent, StateChanged, TokenDelta
from hourglass.jobs.v1.job_pb2 import JobState
from hourglass.jobs.v1.jobs_service_pb2 import Heartbeat, WatchJobResponse

RUNNING = JobState.JOB_STATE_RUNNING
QUEUED = JobState.JOB_STATE_QUEUED
SUCCEEDED = JobState.JOB_STATE_SUCCEEDED


def at(epoch: int, n: int) -> int:
    return epoch * 2**32 + n


def state(epoch: int, new: JobState.ValueType, *, n: int = 1, durable: int = 0) -> JobEvent:
    changed = StateChanged(state=new, terminal=new == SUCCEEDED)
    return JobEvent(sequence=at(epoch, n), last_durable_sequence=durable, state_changed=changed)


def attempt(epoch: int, number: int, *, n: int = 2) -> JobEvent:
    return JobEvent(sequence=at(epoch, n), attempt_number=number, attempt_started=AttemptStarted())


def delta(epoch: int, n: int, text: str, *, offset: int) -> JobEvent:
    told = TokenDelta(text=text, offset=offset, token_count=1)
    return JobEvent(sequence=at(epoch, n), token_delta=told)


def send(rpc: Any, *events: JobEvent) -> None:
    for event in events:
        rpc.send_response(WatchJobResponse(event=event))


def heartbeat(rpc: Any) -> None:
    rpc.send_response(WatchJobResponse(heartbeat=Heartbeat()))
