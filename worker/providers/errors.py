"""How a provider's call can fail, and what that means for the attempt.

The class decides what happens next: a PERMANENT failure ends the job, a PLATFORM failure (our account) parks
the lane, a TRANSIENT one is tried again after a pause, and after an UNKNOWN one the job's own policy decides,
because the provider may have done the work.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobs_store.rate_card import Usage


class ErrorClass(StrEnum):
    """What kind of failure it is."""

    PERMANENT = "PERMANENT"
    PLATFORM = "PLATFORM"
    TRANSIENT = "TRANSIENT"
    UNKNOWN = "UNKNOWN"


class Cause(StrEnum):
    """What happened, as exactly as we know."""

    # The provider said no to the request.
    INVALID_REQUEST = "INVALID_REQUEST"
    MODEL_NOT_FOUND = "MODEL_NOT_FOUND"
    REQUEST_TOO_LARGE = "REQUEST_TOO_LARGE"
    CONTENT_FILTERED = "CONTENT_FILTERED"
    REQUEST_REFUSED = "REQUEST_REFUSED"
    REQUEST_UNSENDABLE = "REQUEST_UNSENDABLE"
    # The provider said no to our account or our configuration.
    CREDENTIALS_REFUSED = "CREDENTIALS_REFUSED"
    PAYMENT_REQUIRED = "PAYMENT_REQUIRED"
    ACCESS_DENIED = "ACCESS_DENIED"
    QUOTA_EXHAUSTED = "QUOTA_EXHAUSTED"
    REDIRECTED = "REDIRECTED"
    # The provider cannot serve now.
    RATE_LIMITED = "RATE_LIMITED"
    REQUEST_TIMEOUT = "REQUEST_TIMEOUT"
    CONFLICT = "CONFLICT"
    TOO_EARLY = "TOO_EARLY"
    SERVER_ERROR = "SERVER_ERROR"
    BAD_GATEWAY = "BAD_GATEWAY"
    OVERLOADED = "OVERLOADED"
    # No request byte left this process.
    CONNECT_FAILED = "CONNECT_FAILED"
    CONNECT_TIMEOUT = "CONNECT_TIMEOUT"
    BUDGET_TOO_LOW = "BUDGET_TOO_LOW"
    # The request left and its answer did not come, or not whole.
    GATEWAY_TIMEOUT = "GATEWAY_TIMEOUT"
    UNEXPECTED_STATUS = "UNEXPECTED_STATUS"
    CONNECTION_LOST = "CONNECTION_LOST"
    FIRST_TOKEN_TIMEOUT = "FIRST_TOKEN_TIMEOUT"  # noqa: S105 - a token of text
    BETWEEN_TOKENS_TIMEOUT = "BETWEEN_TOKENS_TIMEOUT"
    TOTAL_TIMEOUT = "TOTAL_TIMEOUT"
    BUDGET_EXHAUSTED = "BUDGET_EXHAUSTED"
    ERROR_IN_STREAM = "ERROR_IN_STREAM"
    STREAM_ENDED_EARLY = "STREAM_ENDED_EARLY"
    MALFORMED_STREAM = "MALFORMED_STREAM"


CLASS_OF: Final[Mapping[Cause, ErrorClass]] = {
    Cause.INVALID_REQUEST: ErrorClass.PERMANENT,
    Cause.MODEL_NOT_FOUND: ErrorClass.PERMANENT,
    Cause.REQUEST_TOO_LARGE: ErrorClass.PERMANENT,
    Cause.CONTENT_FILTERED: ErrorClass.PERMANENT,
    Cause.REQUEST_REFUSED: ErrorClass.PERMANENT,
    Cause.REQUEST_UNSENDABLE: ErrorClass.PERMANENT,
    Cause.CREDENTIALS_REFUSED: ErrorClass.PLATFORM,
    Cause.PAYMENT_REQUIRED: ErrorClass.PLATFORM,
    Cause.ACCESS_DENIED: ErrorClass.PLATFORM,
    Cause.QUOTA_EXHAUSTED: ErrorClass.PLATFORM,
    Cause.REDIRECTED: ErrorClass.PLATFORM,
    Cause.RATE_LIMITED: ErrorClass.TRANSIENT,
    Cause.REQUEST_TIMEOUT: ErrorClass.TRANSIENT,
    Cause.CONFLICT: ErrorClass.TRANSIENT,
    Cause.TOO_EARLY: ErrorClass.TRANSIENT,
    Cause.SERVER_ERROR: ErrorClass.TRANSIENT,
    Cause.BAD_GATEWAY: ErrorClass.TRANSIENT,
    Cause.OVERLOADED: ErrorClass.TRANSIENT,
    Cause.CONNECT_FAILED: ErrorClass.TRANSIENT,
    Cause.CONNECT_TIMEOUT: ErrorClass.TRANSIENT,
    Cause.BUDGET_TOO_LOW: ErrorClass.TRANSIENT,
    Cause.GATEWAY_TIMEOUT: ErrorClass.UNKNOWN,
    Cause.UNEXPECTED_STATUS: ErrorClass.UNKNOWN,
    Cause.CONNECTION_LOST: ErrorClass.UNKNOWN,
    Cause.FIRST_TOKEN_TIMEOUT: ErrorClass.UNKNOWN,
    Cause.BETWEEN_TOKENS_TIMEOUT: ErrorClass.UNKNOWN,
    Cause.TOTAL_TIMEOUT: ErrorClass.UNKNOWN,
    Cause.BUDGET_EXHAUSTED: ErrorClass.UNKNOWN,
    Cause.ERROR_IN_STREAM: ErrorClass.UNKNOWN,
    Cause.STREAM_ENDED_EARLY: ErrorClass.UNKNOWN,
    Cause.MALFORMED_STREAM: ErrorClass.UNKNOWN,
}

_REASON_OF_CAUSE: Final[Mapping[Cause, str]] = {
    Cause.BUDGET_TOO_LOW: "BUDGET_TOO_LOW",
    Cause.BUDGET_EXHAUSTED: "BUDGET_EXHAUSTED",
    Cause.FIRST_TOKEN_TIMEOUT: "UPSTREAM_TIMEOUT",
    Cause.BETWEEN_TOKENS_TIMEOUT: "UPSTREAM_TIMEOUT",
    Cause.TOTAL_TIMEOUT: "UPSTREAM_TIMEOUT",
    Cause.CONNECT_TIMEOUT: "UPSTREAM_TIMEOUT",
}


class ProviderError(Exception):
    """A call to a provider failed.

    sent: False only if it is proven that no byte of the request left.
    retry_after: seconds that the provider asked us to wait, if it did.
    usage: what the provider counted before it failed, if it did.
    words: the provider's own. They may repeat a prompt or part of a key: neither for callers nor for logs.
    kind: what that is in a word, of the provider's vocabulary or of the library's; fit for logs.
    """

    def __init__(
        self,
        cause: Cause,
        *,
        provider: str,
        sent: bool = True,
        retry_after: float | None = None,
        provider_request_id: str = "",
        http_status: int | None = None,
        usage: Usage | None = None,
        words: str = "",
        kind: str = "",
    ) -> None:
        super().__init__(f"{provider}: {cause}" + (f" (HTTP {http_status})" if http_status else ""))
        self.cause = cause
        self.provider = provider
        self.sent = sent
        self.retry_after = retry_after
        self.provider_request_id = provider_request_id
        self.http_status = http_status
        self.usage = usage
        self.words = words[:_LONGEST_WORDS]
        self.kind = kind

    @property
    def error_class(self) -> ErrorClass:
        """What kind of failure it is."""
        if self.cause is Cause.BUDGET_EXHAUSTED and not self.sent:
            return ErrorClass.TRANSIENT
        return CLASS_OF[self.cause]

    @property
    def reason(self) -> str:
        """The reason code for a caller that waits for this very call."""
        refused = self.error_class is ErrorClass.PERMANENT
        return _REASON_OF_CAUSE.get(self.cause, "PROVIDER_REFUSED" if refused else "PROVIDER_UNAVAILABLE")

    @property
    def metadata(self) -> Mapping[str, str]:
        """For a program: who failed and why."""
        return {"provider": self.provider, "cause": self.cause, "error_class": self.error_class}


_LONGEST_WORDS: Final = 500
