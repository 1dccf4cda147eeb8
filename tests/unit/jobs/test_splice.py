"""Where a live event lies, and which cursors no event can follow."""

import pytest

from jobs_service.domain.splice import Place, check_cursor, is_over, place_of
from jobs_store.errors import CursorOutOfRange
from jobs_store.events import EventKind
from jobs_store.identifiers import START, Sequence, sequence
from jobs_store.reading import Position
from jobs_store.states import JobState
from tests.unit.jobs.simulated_job import event

DELTA = EventKind.TOKEN_DELTA


@pytest.mark.parametrize(
    ("cursor", "at", "last_durable", "place"),
    [
        (sequence(2, 4), sequence(2, 5), None, Place.NEXT),
        (sequence(2, 4), sequence(2, 4), None, Place.BEHIND),
        (sequence(2, 4), sequence(1, 9), None, Place.BEHIND),
        (sequence(2, 4), sequence(2, 6), None, Place.BEYOND_A_GAP),
        (sequence(2, 4), sequence(3, 1), sequence(2, 4), Place.NEXT),
        (sequence(2, 9), sequence(3, 1), sequence(2, 4), Place.NEXT),
        (sequence(2, 4), sequence(3, 1), sequence(2, 5), Place.BEYOND_A_GAP),
        (sequence(2, 4), sequence(4, 1), sequence(3, 1), Place.BEYOND_A_GAP),
        (sequence(2, 4), sequence(3, 2), None, Place.BEYOND_A_GAP),
        (START, sequence(1, 1), 0, Place.NEXT),
        (START, sequence(2, 1), sequence(1, 1), Place.BEYOND_A_GAP),
    ],
)
def test_a_live_event_has_its_place(
    cursor: Sequence, at: Sequence, last_durable: int | None, place: Place
) -> None:
    attributes = {} if last_durable is None else {"last_durable_sequence": last_durable}
    assert place_of(event(at, DELTA, **attributes), cursor) is place


def position(state: JobState, epoch: int, last: Sequence) -> Position:
    return Position(state=state, epoch=epoch, last_sequence=last, worker_address=None)


RUNNING = position(JobState.RUNNING, 2, sequence(2, 10))
FAILED = position(JobState.FAILED, 2, sequence(2, 10))


@pytest.mark.parametrize(
    ("cursor", "where"),
    [(sequence(3, 1), RUNNING), (sequence(3, 1), FAILED), (sequence(2, 11), FAILED)],
)
def test_a_cursor_that_nothing_can_follow_is_out_of_range(cursor: Sequence, where: Position) -> None:
    with pytest.raises(CursorOutOfRange):
        check_cursor(cursor, where)


@pytest.mark.parametrize(
    ("cursor", "where"),
    [
        (START, RUNNING),
        (sequence(2, 10), RUNNING),
        (sequence(2, 5000), RUNNING),
        (sequence(1, 5000), FAILED),
        (sequence(2, 10), FAILED),
    ],
)
def test_any_other_cursor_is_good(cursor: Sequence, where: Position) -> None:
    check_cursor(cursor, where)


def test_a_stream_is_over_when_the_job_is_terminal_and_all_was_read() -> None:
    assert is_over(sequence(2, 10), FAILED)
    assert not is_over(sequence(2, 9), FAILED)
    assert not is_over(sequence(2, 10), RUNNING)
