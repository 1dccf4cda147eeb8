"""Aware datetimes and seconds to and from protobuf's Timestamp and Duration."""

from datetime import UTC, datetime, timedelta
from typing import Final

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_SECOND: Final = -62_135_596_800  # 0001-01-01T00:00:00Z
_LAST_SECOND: Final = 253_402_300_799  # 9999-12-31T23:59:59Z
_MAX_DURATION_SECONDS: Final = 315_576_000_000
_NANOS: Final = 1_000_000_000
_DAY: Final = 86_400


class MalformedTime(ValueError):
    """The Timestamp or Duration breaks the rules of its type."""


def timestamp_of(moment: datetime) -> Timestamp:
    """The Timestamp of an aware datetime, exact to its microseconds."""
    if moment.tzinfo is None:
        raise MalformedTime("a time without a zone says nothing")
    since = moment - _EPOCH
    return Timestamp(seconds=since.days * _DAY + since.seconds, nanos=since.microseconds * 1000)


def datetime_of(timestamp: Timestamp) -> datetime:
    """The UTC datetime of a Timestamp, cut to microseconds. Raises MalformedTime."""
    if not _FIRST_SECOND <= timestamp.seconds <= _LAST_SECOND:
        raise MalformedTime("the time must lie in the years 1 to 9999")
    if not 0 <= timestamp.nanos < _NANOS:
        raise MalformedTime(f"nanos must lie between 0 and 999999999, not {timestamp.nanos}")
    return _EPOCH + timedelta(seconds=timestamp.seconds, microseconds=timestamp.nanos // 1000)


def duration_of(seconds: float) -> Duration:
    """The Duration of a number of seconds, to the nearest nanosecond."""
    whole, nanos = divmod(round(abs(seconds) * _NANOS), _NANOS)
    sign = -1 if seconds < 0 else 1
    return Duration(seconds=sign * whole, nanos=sign * nanos)


def seconds_of(duration: Duration) -> float:
    """The seconds of a Duration. Raises MalformedTime."""
    if abs(duration.seconds) > _MAX_DURATION_SECONDS:
        raise MalformedTime("the duration must lie within 10000 years")
    if abs(duration.nanos) >= _NANOS or duration.seconds * duration.nanos < 0:
        raise MalformedTime("nanos must lie within a second and have the sign of seconds")
    return duration.seconds + duration.nanos / _NANOS
