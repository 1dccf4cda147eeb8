"""What a failed call means: a class for each family of status codes, and the reason to switch on.

The reasons are those of docs/errors.md (`google.rpc.ErrorInfo`, AIP-193).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo
from grpc import StatusCode

from budget.grpc_errors import FailedCall, detail_of, pushback_of, rich_status
from hourglass.budget.v1.ledger_pb2 import BudgetLedger
from transport.handshakes import with_hint

LEDGER_KEY: Final = "budget-ledger-bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldViolation:
    """What is wrong with one field. `field`: its path in the request, such as `spec.messages[0].role`."""

    field: str
    description: str


class HourglassError(Exception):
    """A call failed.

    code: the gRPC status code.
    reason: UPPER_SNAKE; the code's own name when whoever answered gave none.
    message: for people.
    metadata: names and numbers that belong to the reason.
    violations: what to mend in the request, all of it.
    retry_after: seconds until the server wants to be asked again; `math.inf` = never; None = it did not say.
    ledger: where the server's time went; None when the answer did not carry it.
    key: the idempotency key or request_id that the request had, given or made: a call whose outcome is not
        known is safe to send again with it. Empty where a call has none.
    """

    def __init__(
        self,
        message: str,
        *,
        code: StatusCode,
        reason: str = "",
        metadata: Mapping[str, str] | None = None,
        violations: Sequence[FieldViolation] = (),
        retry_after: float | None = None,
        ledger: BudgetLedger | None = None,
    ) -> None:
        self.code = code
        self.reason = reason or code.name
        self.message = message
        self.metadata = dict(metadata or {})
        self.violations = tuple(violations)
        self.retry_after = retry_after
        self.ledger = ledger
        self.key = ""
        super().__init__(message)

    def __str__(self) -> str:
        what = "/".join(dict.fromkeys((self.code.name, self.reason)))
        fields = [f"{one.field}: {one.description}" for one in self.violations]
        return "; ".join([f"{what}: {self.message}", *fields])


class InvalidRequest(HourglassError):
    """INVALID_ARGUMENT: mend the `violations` and send again."""


class NotFound(HourglassError):
    """NOT_FOUND: there is no such job, quote or model for this tenant."""


class AlreadyExists(HourglassError):
    """ALREADY_EXISTS: the key or request_id stands for another request."""


class PreconditionFailed(HourglassError):
    """FAILED_PRECONDITION: the job, the quote or a limit does not allow it as it stands."""


class ResourceExhausted(HourglassError):
    """RESOURCE_EXHAUSTED: funds, the queue, or what the server can take at present."""


class OutOfRange(HourglassError):
    """OUT_OF_RANGE: no events can follow the cursor of a watch."""


class NotPermitted(HourglassError):
    """UNAUTHENTICATED or PERMISSION_DENIED."""


class Unavailable(HourglassError):
    """UNAVAILABLE: nobody answers, and was asked as often and as long as the deadline and the rules allow."""


class DeadlineExceeded(HourglassError):
    """DEADLINE_EXCEEDED: the time is over. What was asked for may have happened."""


class Cancelled(HourglassError):
    """CANCELLED: the call was closed, by another thread that closed the client or by the other side."""


class InternalError(HourglassError):
    """INTERNAL, UNKNOWN and all else: a fault."""


class BrokenStream(InternalError):
    """A stream repeated, skipped or contradicted something."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code=StatusCode.DATA_LOSS, reason="BROKEN_STREAM")


_FAMILIES: Final[Mapping[StatusCode, type[HourglassError]]] = {
    StatusCode.INVALID_ARGUMENT: InvalidRequest,
    StatusCode.NOT_FOUND: NotFound,
    StatusCode.ALREADY_EXISTS: AlreadyExists,
    StatusCode.FAILED_PRECONDITION: PreconditionFailed,
    StatusCode.RESOURCE_EXHAUSTED: ResourceExhausted,
    StatusCode.OUT_OF_RANGE: OutOfRange,
    StatusCode.UNAUTHENTICATED: NotPermitted,
    StatusCode.PERMISSION_DENIED: NotPermitted,
    StatusCode.UNAVAILABLE: Unavailable,
    StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
    StatusCode.CANCELLED: Cancelled,
}


class RpcFailed(FailedCall, Protocol):
    """The errors of both of gRPC's clients: `grpc.RpcError` of a call, and `grpc.aio.AioRpcError`."""

    def details(self) -> str | None:
        """For people."""


def error_of(failed: RpcFailed) -> HourglassError:
    """The typed form of a failed call."""
    status = rich_status(failed)
    info, bad = detail_of(status, ErrorInfo()), detail_of(status, BadRequest())
    code: StatusCode = failed.code()
    return _FAMILIES.get(code, InternalError)(
        with_hint(failed.details() or ""),
        code=code,
        reason=info.reason if info else "",
        metadata=info.metadata if info else None,
        violations=[FieldViolation(field=v.field, description=v.description) for v in bad.field_violations]
        if bad
        else (),
        retry_after=pushback_of(failed, status),
        ledger=ledger_in(failed.trailing_metadata()),
    )


def ledger_in(trailers: Any) -> BudgetLedger | None:
    """The ledger that trailing metadata carries; None when there is none that can be read."""
    for key, value in trailers or ():
        if key == LEDGER_KEY:
            try:
                return BudgetLedger.FromString(value)
            except DecodeError:
                break
    return None


def time_is_over(because: HourglassError | None = None) -> DeadlineExceeded:
    """The call's own budget has ended; `because`: what came last."""
    last = f"; the last answer was {because}" if because else ""
    error = DeadlineExceeded(
        f"The time given for the call is over{last}",
        code=StatusCode.DEADLINE_EXCEEDED,
        reason="BUDGET_EXHAUSTED",
    )
    error.ledger = because.ledger if because else None
    return error
