"""From an HTTP error response to a cause. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final

from worker.providers.errors import Cause

if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST_RETRY_AFTER: Final = 24 * 3600.0
"""A provider that asks for more than a day is asked again after a day."""

_CAUSE_OF_STATUS: Final[Mapping[int, Cause]] = {
    400: Cause.INVALID_REQUEST,
    401: Cause.CREDENTIALS_REFUSED,
    402: Cause.PAYMENT_REQUIRED,
    403: Cause.ACCESS_DENIED,
    404: Cause.MODEL_NOT_FOUND,
    408: Cause.REQUEST_TIMEOUT,
    409: Cause.CONFLICT,
    413: Cause.REQUEST_TOO_LARGE,
    422: Cause.INVALID_REQUEST,
    425: Cause.TOO_EARLY,
    429: Cause.RATE_LIMITED,
    500: Cause.SERVER_ERROR,
    502: Cause.BAD_GATEWAY,
    503: Cause.OVERLOADED,
    504: Cause.GATEWAY_TIMEOUT,
    529: Cause.OVERLOADED,
}
_QUOTA_CODES: Final = frozenset({"insufficient_quota", "billing_hard_limit_reached", "quota_exceeded"})
_FILTER_CODES: Final = frozenset({"content_filter", "content_policy_violation", "moderation_blocked"})


def cause_of_status(status: int, codes: frozenset[str] = frozenset()) -> Cause:
    """What an error response means; `codes` are the code and type that its body names."""
    if codes & _QUOTA_CODES:
        return Cause.QUOTA_EXHAUSTED
    if codes & _FILTER_CODES and 400 <= status < 500:
        return Cause.CONTENT_FILTERED
    known = _CAUSE_OF_STATUS.get(status)
    if known is not None:
        return known
    if 300 <= status < 400:
        return Cause.REDIRECTED
    return Cause.REQUEST_REFUSED if 400 <= status < 500 else Cause.UNEXPECTED_STATUS


def codes_of_body(body: object) -> frozenset[str]:
    """The code and type of an OpenAI-style error body, lower case; empty for any other body."""
    error = body.get("error", body) if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return frozenset()
    values = (error.get("code"), error.get("type"))
    return frozenset(value.lower() for value in values if isinstance(value, str))


def retry_after_seconds(header: str | None, *, now: datetime) -> float | None:
    """Seconds of a Retry-After header (RFC 9110, 10.2.3): delay or HTTP date; None if absent or malformed."""
    if header is None:
        return None
    seconds = _delay(header.strip(), now)
    return None if seconds is None else min(max(seconds, 0.0), LONGEST_RETRY_AFTER)


def _delay(header: str, now: datetime) -> float | None:
    if header.isdecimal() and header.isascii():
        return float(header)
    date = time_of(header)
    return None if date is None else (date - now).total_seconds()


def time_of(header: str | None) -> datetime | None:
    """An HTTP date (RFC 9110, 5.6.7); None if absent or malformed.

    The `Date` of a response is by the clock that its `Retry-After` is by: ours may be off.
    """
    try:
        date = parsedate_to_datetime(header or "")
    except ValueError:
        return None
    return date.replace(tzinfo=date.tzinfo or UTC)
