"""A reader of torture believes nothing: every stream that cannot be a log is noticed."""

import pytest

from hourglass.jobs.v1.event_pb2 import JobEvent, StateChanged, TokenDelta
from tests.torture.watchers import OutOfOrder, Reading

EPOCH = 1 << 32


def event(epoch: int, number: int, *, durable: int = 0) -> JobEvent:
    return JobEvent(
        sequence=epoch * EPOCH + number, last_durable_sequence=durable, token_delta=TokenDelta(text="x")
    )


def read(*events: JobEvent) -> Reading:
    reading = Reading()
    for each in events:
        reading.take(each)
    return reading


def test_events_in_order_are_kept() -> None:
    reading = read(event(1, 1), event(1, 2), event(2, 1, durable=EPOCH + 2))
    assert [EPOCH + 1, EPOCH + 2, 2 * EPOCH + 1] == [each.sequence for each in reading.kept]


def test_what_was_not_durable_is_dropped_at_the_boundary() -> None:
    reading = read(event(1, 1), event(1, 2), event(1, 3), event(2, 1, durable=EPOCH + 2))
    assert [EPOCH + 1, EPOCH + 2, 2 * EPOCH + 1] == [each.sequence for each in reading.kept]
    assert 1 == reading.dropped


@pytest.mark.parametrize(
    "events",
    [
        [event(1, 2)],
        [event(1, 1), event(1, 1)],
        [event(1, 1), event(1, 3)],
        [event(1, 1), event(2, 2)],
        [event(1, 1), event(2, 1, durable=EPOCH + 2)],
        [event(1, 1), event(1, 2), event(2, 1, durable=EPOCH + 2), event(1, 3)],
        [event(1, 1), event(2, 1)],
    ],
)
def test_a_repeat_a_gap_or_a_false_boundary_is_noticed(events: list[JobEvent]) -> None:
    with pytest.raises(OutOfOrder):
        read(*events)


def test_a_terminal_change_of_state_ends_it() -> None:
    last = JobEvent(sequence=EPOCH + 1, state_changed=StateChanged(terminal=True))
    assert read(last).ended
