"""What a reader of events knows, and when it refuses to believe them."""

import pytest

from hourglass.jobs.v1.event_pb2 import AttemptStarted, JobEvent, StateChanged, TokenDelta
from hourglass.jobs.v1.job_pb2 import JobState
from hourglass_client.errors import BrokenStream
from hourglass_client.transcript import Transcript

RUNNING = JobState.JOB_STATE_RUNNING
SUCCEEDED = JobState.JOB_STATE_SUCCEEDED


def at(epoch: int, n: int) -> int:
    return epoch * 2**32 + n


def started(epoch: int, attempt: int, *, durable: int = 0) -> list[JobEvent]:
    return [
        JobEvent(
            sequence=at(epoch, 1), last_durable_sequence=durable, state_changed=StateChanged(state=RUNNING)
        ),
        JobEvent(sequence=at(epoch, 2), attempt_number=attempt, attempt_started=AttemptStarted()),
    ]


def deltas(epoch: int, *texts: str, first: int = 3) -> list[JobEvent]:
    events, offset = [], 0
    for n, text in enumerate(texts, first):
        delta = TokenDelta(text=text, offset=offset, token_count=1)
        events.append(JobEvent(sequence=at(epoch, n), token_delta=delta))
        offset += len(text)
    return events


def ended(epoch: int, n: int) -> JobEvent:
    return JobEvent(sequence=at(epoch, n), state_changed=StateChanged(state=SUCCEEDED, terminal=True))


def test_the_deltas_of_an_attempt_joined_are_its_text() -> None:
    transcript = Transcript.of([*started(2, 1), *deltas(2, "The ", "sky"), ended(3, 1)])
    assert (transcript.text, transcript.token_count) == ("The sky", 2)
    assert (transcript.ended, transcript.state_name, transcript.cursor) == (True, "SUCCEEDED", at(3, 1))


def test_a_new_attempt_starts_its_answer_anew() -> None:
    events = [*started(2, 1), *deltas(2, "Wrong"), *started(4, 2, durable=at(2, 3)), *deltas(4, "Right")]
    transcript = Transcript.of(events)
    assert (transcript.text, transcript.attempt) == ("Right", 2)


def test_text_that_died_with_its_worker_is_dropped_with_the_next_epoch() -> None:
    events = [*started(2, 1), *deltas(2, "kept", "lost")]
    queued = JobEvent(
        sequence=at(3, 1),
        last_durable_sequence=at(2, 3),
        state_changed=StateChanged(state=JobState.JOB_STATE_QUEUED),
    )
    transcript = Transcript.of([*events, queued])
    assert transcript.text == "kept"
    assert [event.sequence for event in transcript.events] == [at(2, 1), at(2, 2), at(2, 3), at(3, 1)]


def test_a_repeated_event_is_refused() -> None:
    first, second = deltas(2, "a", "b")
    with pytest.raises(BrokenStream, match="came after"):
        Transcript.of([first, second, first])


def test_a_gap_in_the_text_is_refused() -> None:
    first, _, third = deltas(2, "a", "b", "c")
    with pytest.raises(BrokenStream, match="offset 2 came after 1 characters"):
        Transcript.of([first, third])


def test_events_of_kinds_that_are_not_known_are_skipped() -> None:
    transcript = Transcript.of([*started(2, 1), JobEvent(sequence=at(2, 3))])
    assert transcript.cursor == at(2, 3)


def test_a_transcript_can_be_wound_back_to_its_half() -> None:
    transcript = Transcript.of([*started(2, 1), *deltas(2, "a", "b", "c", "d"), ended(3, 1)])
    half = transcript.up_to_token(2)
    assert (half.text, half.cursor, half.ended) == ("ab", at(2, 4), False)
