"""Kinds of faults, and how often each has to strike."""

from enum import StrEnum
from typing import Final

LEAST_STRIKES: Final = 10
"""In `FULL_LENGTH` seconds; in proportion in a shorter run."""
LEAST_ACCEPTED: Final = 500
FULL_LENGTH: Final = 120.0


class Kind(StrEnum):
    """What is done to the system, by where it strikes."""

    # Processes.
    KILL_WORKER = "kill worker"
    KILL_JOBS = "kill job service"
    STALL_WORKER = "stall worker past its lease"
    STALL_JOBS = "stall job service"
    KILL_PRICING = "kill pricing service"
    TERMINATE = "terminate and restart"
    # Postgres and the way to it.
    RESTART_POSTGRES = "restart Postgres, immediate"
    COMMIT_LOST = "COMMIT never arrives"
    COMMIT_REPLY_LOST = "COMMIT's reply never arrives"
    COMMIT_REPLY_LATE = "COMMIT's reply comes late"
    DATABASE_SILENT = "no reply from Postgres, then reset"
    WAKE_UPS_CUT = "LISTEN socket reset"
    WAKE_UPS_SILENT = "LISTEN socket silent"
    # Callers and operators.
    ABANDON_CREATE = "caller leaves its create"
    REPLAY_CREATE = "create again, at the other server"
    TWIN_CREATE = "create at both servers at once"
    REUSE_KEY = "other spec under a used key"
    CANCEL = "cancel"
    EMPTY_FUNDS = "funds run empty"
    RETRY_JOB = "RetryJob of a failed one"
    RESOLVE_JOB = "ResolveJob of a held one"
    WATCH_CUT = "watcher moves to the other server"
    # The provider.
    REFUSED_RATE = "provider: 429 with Retry-After"
    REFUSED_KEY = "provider: 401"
    REFUSED_REQUEST = "provider: 400"
    SERVER_ERROR = "provider: 500"
    RESET_BEFORE = "provider: reset before the answer"
    RESET_MID = "provider: reset in the answer"
    STALL_BEFORE = "provider: silence before the answer"
    STALL_MID = "provider: silence in the answer"
    ERROR_MID = "provider: error in the answer"
    CUT_MID = "provider: answer cut short"
    NO_USAGE = "provider: no usage"
    SLOW = "provider: slow"


def often(number: int, seconds: float) -> int:
    """How often in a run of so many seconds, if `number` times in `FULL_LENGTH`."""
    return max(1, round(number * seconds / FULL_LENGTH))


def least_strikes(seconds: float) -> int:
    """How often each kind has to strike in a run of so many seconds."""
    return _in_proportion(LEAST_STRIKES, seconds)


def least_accepted(seconds: float) -> int:
    """How many jobs have to be accepted in a run of so many seconds."""
    return _in_proportion(LEAST_ACCEPTED, seconds)


def _in_proportion(number: int, seconds: float) -> int:
    return int(number * min(1.0, seconds / FULL_LENGTH))
