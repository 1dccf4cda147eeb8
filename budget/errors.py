"""Every way in which a budgeted call ends badly, each with a reason that a program can switch on.

`metadata` is what an answer may tell a caller (`google.rpc.ErrorInfo.metadata`): names and numbers of the
contract, never the text of a dependency. The first line of each docstring is the message.
"""

from collections.abc import Mapping
from typing import ClassVar


class BudgetError(Exception):
    """A budgeted call failed."""

    reason: ClassVar[str] = "BUDGET_ERROR"

    def __init__(
        self, *, dependency: str = "", method: str = "", limit: float | None = None, **told: str
    ) -> None:
        sentence = (type(self).__doc__ or self.reason).splitlines()[0]
        called = "/".join(filter(None, (dependency, method)))
        super().__init__(f"{called}: {sentence}" if called else sentence)
        self.dependency = dependency
        self.method = method
        self.limit = limit
        """Seconds that the call was allowed at most, where that is known."""
        named = {"dependency": dependency, "method": method, "limit_ms": _ms(limit), **told}
        self.metadata: Mapping[str, str] = {name: value for name, value in named.items() if value}


class BudgetTooLow(BudgetError):
    """What remains of the budget is less than this call needs; it was not tried."""

    reason = "BUDGET_TOO_LOW"

    def __init__(
        self, *, remaining: float, floor: float, dependency: str, method: str, limit: float | None = None
    ) -> None:
        super().__init__(
            dependency=dependency,
            method=method,
            limit=limit,
            remaining_ms=_ms(remaining),
            floor_ms=_ms(floor),
        )
        self.remaining = remaining
        self.floor = floor


class BudgetExhausted(BudgetError):
    """The budget of the request ran out."""

    reason = "BUDGET_EXHAUSTED"

    def __init__(
        self,
        *,
        dependency: str = "",
        method: str = "",
        upstream_reason: str = "",
        upstream_metadata: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(dependency=dependency, method=method, upstream_reason=upstream_reason)
        self.upstream_reason = upstream_reason
        """`ErrorInfo.reason` of the service that was called when it ran out; empty when it told nothing."""
        self.upstream_metadata = dict(upstream_metadata or {})


class SpuriousCancel(BudgetError):
    """Something inside was cancelled that nobody had asked to stop."""

    reason = "SPURIOUS_CANCEL"


class DependencyTimeout(BudgetError):
    """A dependency used up its limit while budget remained."""

    cause: str = ""
    """What the time went into, where that is known; stands in the ledger."""


class UpstreamTimeout(DependencyTimeout):
    """The called service used up its limit while budget remained."""

    reason = "UPSTREAM_TIMEOUT"

    def __init__(
        self,
        *,
        dependency: str = "",
        method: str = "",
        limit: float | None = None,
        upstream_reason: str = "",
        upstream_metadata: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(dependency=dependency, method=method, limit=limit, upstream_reason=upstream_reason)
        self.upstream_reason = upstream_reason
        """`ErrorInfo.reason` of the service, when it said itself that time was over; else empty."""
        self.upstream_metadata = dict(upstream_metadata or {})
        self.cause = upstream_reason or type(self).cause


class FirstByteTimeout(UpstreamTimeout):
    """The called service did not begin to answer within its limit."""

    cause = "FIRST_BYTE"


class StallTimeout(UpstreamTimeout):
    """The called service began to answer and then stopped."""

    cause = "STALL"


class DatabaseTimeout(DependencyTimeout):
    """The database used up its limit while budget remained."""

    reason = "DATABASE_TIMEOUT"


class PoolTimeout(DatabaseTimeout):
    """No database connection came free within the limit."""

    cause = "POOL"


class LockTimeout(DatabaseTimeout):
    """Another transaction held a lock for longer than the limit."""

    cause = "LOCK"


class UpstreamError(BudgetError):
    """The called service answered with an error, or could not be reached."""

    reason = "UPSTREAM_ERROR"

    def __init__(
        self,
        *,
        dependency: str,
        method: str,
        code: str,
        upstream_reason: str = "",
        upstream_metadata: Mapping[str, str] | None = None,
        pushback: float | None = None,
        details: str = "",
    ) -> None:
        super().__init__(dependency=dependency, method=method, code=code, upstream_reason=upstream_reason)
        self.code = code
        """Name of the gRPC status code, e.g. `UNAVAILABLE`."""
        self.upstream_reason = upstream_reason
        """`ErrorInfo.reason` of the dependency, empty when it sent none."""
        self.upstream_metadata = dict(upstream_metadata or {})
        self.pushback = pushback
        """Seconds until it wants to be asked again; `math.inf` = never; None = it did not say."""
        self.details = details
        """The dependency's own words: for logs, not for callers."""

    @property
    def cause(self) -> str:
        """The most exact name there is for what went wrong."""
        return self.upstream_reason or self.code


class DatabaseError(BudgetError):
    """The database refused a call."""

    reason = "DATABASE_ERROR"

    def __init__(self, *, dependency: str = "", method: str = "", sqlstate: str = "") -> None:
        super().__init__(dependency=dependency, method=method)
        self.sqlstate = sqlstate
        """Five characters (PostgreSQL, appendix A); empty when the connection itself failed."""


class DatabaseUnavailable(DatabaseError):
    """The database cannot be reached, or ended the call by itself.

    A transaction left nothing behind; a single statement that writes may have.
    """

    reason = "DATABASE_UNAVAILABLE"


class DatabaseConflict(DatabaseError):
    """Another transaction won (serialization failure or deadlock); this one may be tried again as a whole."""

    reason = "DATABASE_CONFLICT"


class ConstraintViolation(DatabaseError):
    """A row breaks a constraint of the schema."""

    reason = "CONSTRAINT_VIOLATION"

    def __init__(
        self, *, constraint: str, dependency: str = "", method: str = "", sqlstate: str = ""
    ) -> None:
        super().__init__(dependency=dependency, method=method, sqlstate=sqlstate)
        self.constraint = constraint


class CommitOutcomeUnknown(DatabaseError):
    """COMMIT was sent and its answer never came: the transaction holds or it does not."""

    reason = "COMMIT_OUTCOME_UNKNOWN"


def _ms(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1000:.0f}"
