"""The story of a job, as it is written. The files in `expected/` are what somebody should read."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from hourglass.jobs.v1.event_pb2 import JobEvent
from hourglass.jobs.v1.job_pb2 import AttemptOutcome, ErrorClass, Job
from jobsctl.story.facts import Facts
from jobsctl.story.telling import tell
from tests.unit.jobsctl.stories import (
    NOON,
    at,
    cancelled_call,
    changed,
    claim,
    finished_after_two_attempts,
    first_attempt,
    job,
)
from tests.unit.jobsctl.written import written

EXPECTED = Path(__file__).parent / "expected"


def told(job: Job, events: Sequence[JobEvent] = (), *, now: datetime = NOON, no_log: str = "") -> str:
    facts = Facts(job=job, events=events, now=now, no_log=no_log)
    return written(lambda printer: tell(facts, printer))


def part(story: str, heading: str) -> Sequence[str]:
    """The lines under a heading, with single blanks."""
    lines = story.split(f"\n{heading}\n", maxsplit=1)[1].split("\n\n", maxsplit=1)[0]
    return [" ".join(line.split()) for line in lines.splitlines()]


def test_a_job_with_two_attempts_is_told_from_its_create_to_its_end() -> None:
    assert (EXPECTED / "two_attempts.txt").read_text() == told(*finished_after_two_attempts())


def test_a_cancel_in_mid_answer_is_told_with_what_is_unknown_after_it() -> None:
    attempt = first_attempt(
        end_time=at(3.03), outcome=AttemptOutcome.ATTEMPT_OUTCOME_CANCELLED, cause="USER_CANCEL"
    )
    cancelled = job(
        "CANCELLED", "USER_CANCEL", attempts=[attempt], cancel_request_time=at(3), end_time=at(3.03)
    )
    events = [*claim(1, 1, "worker-1"), *cancelled_call(3, 1), changed(3.03, "CANCELLED", "USER_CANCEL")]
    assert [
        'asked for at 2026-11-30 12:00:03Z by ann: "asked twice"',
        "the provider's call was closed 20.0 ms later; what it did after that is unknown",
    ] == part(told(cancelled, events), "Cancel")


def test_a_cancel_before_any_call_says_that_nobody_was_called() -> None:
    cancelled = job("CANCELLED", "USER_CANCEL", cancel_request_time=at(3), end_time=at(3))
    assert ["asked for at 2026-11-30 12:00:03Z", "the provider was never called"] == part(
        told(cancelled), "Cancel"
    )


def test_a_job_that_nobody_cancelled_has_no_such_part() -> None:
    assert "Cancel" not in told(*finished_after_two_attempts())


def test_events_that_are_not_kept_leave_a_story_all_the_same() -> None:
    finished, _ = finished_after_two_attempts()
    story = told(finished, no_log="its events are not kept any more")
    assert ["its events are not kept any more"] == part(story, "What happened (UTC)")
    assert "worker-2" in story


def test_a_ledger_that_is_not_kept_is_told() -> None:
    assert "its ledger is not kept" in told(job("QUEUED", "CREATED"))


def test_an_attempt_that_does_not_count_is_marked() -> None:
    refused = first_attempt(counted=False, cause="HTTP_429", error_class=ErrorClass.ERROR_CLASS_TRANSIENT)
    lines = part(told(job("QUEUED", "LANE_PARKED", attempts=[refused])), "Attempts (0 counted)")
    assert lines[1].startswith("1* worker-1 UNKNOWN HTTP_429 (transient)")
    assert "* not counted against max_attempt_count" == lines[-1]


def test_words_of_others_cannot_steer_the_terminal() -> None:
    wicked = job("FAILED", "PERMANENT_ERROR", attempts=[first_attempt(error_message="\x1b[2Jgone\r")])
    story = told(wicked)
    assert "\x1b" not in story
    assert "attempt 1: \\x1b[2Jgone\\r" in story
