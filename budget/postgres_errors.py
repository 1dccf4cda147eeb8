"""What PostgreSQL and its driver raise, told apart once (PostgreSQL, appendix A: error codes)."""

import asyncpg

from budget.errors import (
    BudgetError,
    CommitOutcomeUnknown,
    ConstraintViolation,
    DatabaseConflict,
    DatabaseError,
    DatabaseTimeout,
    DatabaseUnavailable,
    LockTimeout,
)
from budget.policy import Policy

DRIVER_ERRORS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
"""What a call of the driver may raise; OSError is a refused or lost connection, and TimeoutError is one."""

_NOT_SENT = (asyncpg.InterfaceError, asyncpg.InternalClientError)

_CONFLICTS = {"40001", "40P01"}
_CONNECTION_LOST = ("08", "57P", "25P03", "25P04")
_UNAVAILABLE = (*_CONNECTION_LOST, "53", "28", "3D000", "25006")  # no resources, no login, a standby
_GONE = ("closed", "closing", "released back to the pool")


def typed_error(error: BaseException, policy: Policy) -> BudgetError | None:
    """The typed form of a driver's error; None for one that only a wrong statement or wrong use can cause."""
    match error:
        case asyncpg.PostgresError():
            return _of_server(error, policy)
        case TimeoutError(errno=None):
            return DatabaseTimeout(dependency=policy.dependency, method=policy.method, limit=policy.limit)
        case OSError():
            return DatabaseUnavailable(dependency=policy.dependency, method=policy.method)
        case asyncpg.InterfaceError() if any(word in str(error) for word in _GONE):
            return DatabaseUnavailable(dependency=policy.dependency, method=policy.method)
        case asyncpg.InternalClientError():  # the server had said goodbye, and the driver had not yet read it
            return DatabaseUnavailable(dependency=policy.dependency, method=policy.method)
        case _:
            return None


def typed_commit_error(error: BaseException, policy: Policy) -> BudgetError | None:
    """The same for COMMIT: a connection that is lost before the answer leaves the outcome unknown."""
    typed = typed_error(error, policy)
    answered = isinstance(error, asyncpg.PostgresError) and not _state_of(error).startswith(_CONNECTION_LOST)
    in_doubt = not answered and not isinstance(error, _NOT_SENT)
    if isinstance(typed, DatabaseUnavailable | DatabaseTimeout) and in_doubt:
        return CommitOutcomeUnknown(
            dependency=policy.dependency, method=policy.method, sqlstate=_state_of(error)
        )
    return typed


def aborted(policy: Policy) -> DatabaseError:
    """COMMIT of a transaction in which a statement failed: PostgreSQL rolls back and calls it a success."""
    return DatabaseError(dependency=policy.dependency, method=policy.method, sqlstate="25P02")


def _of_server(error: asyncpg.PostgresError, policy: Policy) -> BudgetError | None:
    state, called = _state_of(error), {"dependency": policy.dependency, "method": policy.method}
    if state == "57014":
        return _cancelled(error, policy)
    if state == "55P03" and "timeout" in str(error):
        return LockTimeout(**called, limit=policy.limit)
    if state in _CONFLICTS or state == "55P03":  # 55P03 without a timeout: NOWAIT met a lock
        return DatabaseConflict(**called, sqlstate=state)
    if state.startswith("23"):
        return ConstraintViolation(**called, sqlstate=state, constraint=error.constraint_name or "")
    if state.startswith(_UNAVAILABLE):
        return DatabaseUnavailable(**called, sqlstate=state)
    return None


def _cancelled(error: asyncpg.PostgresError, policy: Policy) -> BudgetError:
    # Our own cancels never come back as an error, so "user request" is somebody's pg_cancel_backend.
    if "user request" in str(error):
        return DatabaseUnavailable(dependency=policy.dependency, method=policy.method, sqlstate="57014")
    return DatabaseTimeout(dependency=policy.dependency, method=policy.method, limit=policy.limit)


def _state_of(error: BaseException) -> str:
    return str(getattr(error, "sqlstate", None) or "")
