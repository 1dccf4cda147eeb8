"""Times cross the wire with their zone, and malformed ones are refused."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from servicekit.wire_time import MalformedTime, datetime_of, duration_of, seconds_of, timestamp_of


@given(st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)))  # noqa: DTZ001 - made aware below
def test_every_moment_comes_back_exactly(moment: datetime) -> None:
    aware = moment.replace(tzinfo=timezone(timedelta(hours=5)))

    assert aware == datetime_of(timestamp_of(aware))


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(MalformedTime, match="zone"):
        timestamp_of(datetime(2026, 1, 1))  # noqa: DTZ001 - the point


@pytest.mark.parametrize("timestamp", [Timestamp(seconds=253_402_300_800), Timestamp(nanos=-1)])
def test_a_timestamp_out_of_range_is_refused(timestamp: Timestamp) -> None:
    with pytest.raises(MalformedTime):
        datetime_of(timestamp)


def test_a_moment_is_cut_to_microseconds() -> None:
    assert datetime(1970, 1, 1, 0, 0, 1, 5, UTC) == datetime_of(Timestamp(seconds=1, nanos=5_999))


@given(st.integers(-(10**15), 10**15))
def test_every_duration_of_whole_microseconds_comes_back(micros: int) -> None:
    assert micros == round(seconds_of(duration_of(micros / 1e6)) * 1e6)


@pytest.mark.parametrize(
    "duration", [Duration(seconds=1, nanos=-1), Duration(seconds=315_576_000_001), Duration(nanos=10**9)]
)
def test_a_malformed_duration_is_refused(duration: Duration) -> None:
    with pytest.raises(MalformedTime):
        seconds_of(duration)
