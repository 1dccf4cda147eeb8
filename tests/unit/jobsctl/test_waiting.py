"""What a job waits for, in a sentence."""

from datetime import timedelta
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from hourglass.jobs.v1.admin_service_pb2 import Lane, LaneState
from hourglass.jobs.v1.job_pb2 import AttemptOutcome, Job
from jobsctl.story.facts import Facts
from jobsctl.story.waiting import waits_for
from tests.unit.jobsctl.stories import JOB_ID, LANE, NOON, at, first_attempt, job


def lane(state: str = "OPEN", **fields: Any) -> Lane:
    return Lane(lane=LANE, state=LaneState.Value(f"LANE_STATE_{state}"), **fields)


def waits(told: Job, in_lane: Lane | None = None, *, after: float = 10) -> str:
    now = NOON + timedelta(seconds=after)
    return waits_for(Facts(job=told, events=[], now=now, lane=in_lane))


def queued(cause: str = "CREATED", *, ready: Timestamp | None = None) -> Job:
    return job("QUEUED", cause, ready_time=ready or at(0), state_expire_time=at(3600))


def running(**attempt: Any) -> Job:
    goes_on = {"outcome": AttemptOutcome.ATTEMPT_OUTCOME_RUNNING, "end_time": None, **attempt}
    return job("RUNNING", "CLAIMED", attempts=[first_attempt(**goes_on)])


EXPIRY = "; otherwise it becomes EXPIRED at 2026-11-30 13:00:00Z (in 59 min 50 s)"


def test_a_queued_job_waits_for_a_worker() -> None:
    assert f"a worker with a free slot for {LANE}{EXPIRY}" == waits(queued())
    busy = lane(running_count=3, queued_count=7)
    assert f"a worker with a free slot for {LANE}: 3 run and 7 wait there{EXPIRY}" == waits(queued(), busy)


def test_a_queued_job_waits_for_its_time() -> None:
    soon = at(15)
    assert waits(queued(ready=soon)).startswith(
        "its schedule: not claimed before 2026-11-30 12:00:15Z (in 5 s)"
    )
    assert waits(queued("TRANSIENT_ERROR", ready=soon)).startswith("its back-off: not claimed before")


def test_a_queued_job_waits_for_its_lane() -> None:
    parked = lane("PARKED", state_cause="HTTP_429", park_until_time=at(60))
    assert waits(queued(), parked).startswith(
        f"its lane: {LANE} is PARKED (HTTP_429) until 2026-11-30 12:01:00Z"
    )
    paused = waits(queued(), lane("PAUSED", state_cause="OPERATOR_PAUSE"))
    assert f"until `jobsctl lanes resume {LANE} --reason ...`" in paused
    full = lane(running_count=2, max_running_count=2)
    assert waits(queued(), full).startswith("a slot in its lane: 2 of 2 run")


def test_a_running_job_waits_for_its_worker_or_for_the_provider() -> None:
    assert "worker-1 (attempt 1) to call the provider" == waits(running(send_time=None))
    assert "the provider's answer to worker-1 (attempt 1), called 8.99 s ago" == waits(running())


def test_a_running_job_that_was_cancelled_waits_for_its_worker() -> None:
    told = running()
    told.cancel_request_time.CopyFrom(at(9))
    assert "worker-1 (attempt 1) to close its call: a cancel was asked for at 2026-11-30 12:00:09Z" == waits(
        told
    )


def test_a_held_job_waits_for_a_decision_and_says_how_it_is_made() -> None:
    sentence = waits(job("HELD", "UNKNOWN_OUTCOME", state_expire_time=at(610)))
    assert f"`jobsctl jobs resolve {JOB_ID} retry|fail --reason ...`" in sentence
    assert sentence.endswith("; otherwise it becomes FAILED at 2026-11-30 12:10:10Z (in 10 min)")


def test_a_job_that_has_ended_waits_for_nothing() -> None:
    assert "nothing: SUCCEEDED is its end" == waits(job("SUCCEEDED", "ACCEPTED"))
    assert f"`jobsctl jobs retry {JOB_ID} --reason ...`" in waits(job("FAILED", "MAX_ATTEMPTS"))
    assert "cannot run again" in waits(job("FAILED", "MAX_ATTEMPTS", erase_time=at(1)))
