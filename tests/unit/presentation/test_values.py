"""Values as people read them."""

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from google.type.money_pb2 import Money

from hourglass.jobs.v1.job_pb2 import JobState
from presentation.values import between, dollars, lasted, moment, printable, short_name, span


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0.00 ms"),
        (0.0124, "12.4 ms"),
        (0.9, "900 ms"),
        (8.618, "8.62 s"),
        (59.5, "59.5 s"),
        (60.0, "1 min"),
        (3599.0, "59 min 59 s"),
        (3660.0, "1 h 1 min"),
        (86_400.0, "1 d"),
        (90_061.0, "1 d 1 h"),
        (-3660.0, "-1 h 1 min"),
    ],
)
def test_a_duration_is_told_in_its_largest_units(seconds: float, text: str) -> None:
    assert text == span(seconds)


def test_money_keeps_every_digit_and_its_sign() -> None:
    assert "$1.000000001" == dollars(Money(units=1, nanos=1))
    assert "-$0.500000000" == dollars(Money(nanos=-500_000_000))


def test_what_is_absent_is_a_dash() -> None:
    assert ("-", "-", "-") == (
        moment(Timestamp()),
        between(Timestamp(), Timestamp(seconds=1)),
        lasted(Timestamp(seconds=1), Timestamp()),
    )


def test_times_are_utc() -> None:
    assert "2026-11-30 12:00:00Z" == moment(Timestamp(seconds=1_796_040_000))


def test_names_lose_their_prefix_and_unknown_numbers_stay_numbers() -> None:
    assert ("HELD", "99") == (short_name(JobState, JobState.JOB_STATE_HELD), short_name(JobState, 99))


def test_control_characters_are_spelled_out() -> None:
    assert "a\\x1b[2Jb\nc\td 世界" == printable("a\x1b[2Jb\nc\td 世界")
