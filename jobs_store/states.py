"""The states of a job, what comes of an attempt, and the one table of the changes that are allowed."""

from enum import StrEnum
from typing import Final


class JobState(StrEnum):
    """Where a job stands."""

    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    HELD = "HELD"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    EXPIRED = "EXPIRED"

    @property
    def terminal(self) -> bool:
        """True when nothing but an operator's retry leads on."""
        return self in TERMINAL


TERMINAL: Final = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED, JobState.EXPIRED})


class Cause(StrEnum):
    """Why a job changed its state."""

    CREATED = "CREATED"
    CLAIMED = "CLAIMED"
    ACCEPTED = "ACCEPTED"
    LATE_RESULT = "LATE_RESULT"
    RELEASED = "RELEASED"
    CRASHED_BEFORE_SEND = "CRASHED_BEFORE_SEND"
    NOT_SENT = "NOT_SENT"
    TRANSIENT_ERROR = "TRANSIENT_ERROR"
    LANE_PARKED = "LANE_PARKED"
    UNKNOWN_OUTCOME = "UNKNOWN_OUTCOME"
    PERMANENT_ERROR = "PERMANENT_ERROR"
    MAX_ATTEMPTS = "MAX_ATTEMPTS"
    PROVIDER_COST_LIMIT = "PROVIDER_COST_LIMIT"
    POISONED = "POISONED"
    HOLD_TIMEOUT = "HOLD_TIMEOUT"
    QUEUE_TIMEOUT = "QUEUE_TIMEOUT"
    USER_CANCEL = "USER_CANCEL"
    RESOLVED_RETRY = "RESOLVED_RETRY"
    RESOLVED_FAIL = "RESOLVED_FAIL"
    RETRIED = "RETRIED"


class Actor(StrEnum):
    """Who makes a change."""

    CALLER = "caller"
    OPERATOR = "operator"
    CLAIM = "claim"
    RUN = "run"
    REAPER = "reaper"


class AttemptOutcome(StrEnum):
    """What came of an attempt."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    UNKNOWN = "UNKNOWN"
    CANCELLED = "CANCELLED"
    NOT_SENT = "NOT_SENT"


class ErrorClass(StrEnum):
    """How an error of an attempt is treated; see `jobs_store.decisions`."""

    PERMANENT = "PERMANENT"
    PLATFORM = "PLATFORM"
    TRANSIENT = "TRANSIENT"
    UNKNOWN = "UNKNOWN"


class CostBasis(StrEnum):
    """How the cost of an attempt is known."""

    REPORTED = "REPORTED"
    ESTIMATED = "ESTIMATED"
    UNKNOWN = "UNKNOWN"


class UnknownOutcomePolicy(StrEnum):
    """What happens when nobody knows whether an attempt ran."""

    RETRY = "RETRY"
    HOLD = "HOLD"
    FAIL = "FAIL"


class PriceBasis(StrEnum):
    """Where a job's price came from."""

    QUOTE = "QUOTE"
    LIVE = "LIVE"
    LAST_KNOWN = "LAST_KNOWN"


class FinishReason(StrEnum):
    """Why a model stopped."""

    STOP = "STOP"
    LENGTH = "LENGTH"
    CONTENT_FILTER = "CONTENT_FILTER"
    OTHER = "OTHER"
