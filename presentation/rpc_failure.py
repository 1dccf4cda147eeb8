"""A failed RPC as its caller should see it: code, reason, message, and what to mend."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self, TypeVar

import grpc
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from servicekit.wire_time import seconds_of
from transport.handshakes import with_hint

DETAILS: Final = "grpc-status-details-bin"
Detail = TypeVar("Detail", ErrorInfo, BadRequest, RetryInfo)


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcFailure:
    """What a failed call said.

    reason: UPPER_SNAKE, for programs; empty when whoever answered gave none.
    violations: `field: what is wrong with it`. retry_after: seconds.
    """

    code: str
    reason: str
    message: str
    violations: Sequence[str] = ()
    retry_after: float | None = None

    @classmethod
    def of(cls, error: grpc.aio.AioRpcError) -> Self:
        """Read the error of a call."""
        status = _status(error)
        info, bad = _detail(status, ErrorInfo()), _detail(status, BadRequest())
        retry = _detail(status, RetryInfo())
        return cls(
            code=error.code().name,
            reason=info.reason if info else "",
            message=with_hint(error.details() or ""),
            violations=[f"{v.field}: {v.description}" for v in bad.field_violations] if bad else (),
            retry_after=seconds_of(retry.retry_delay) if retry else None,
        )

    def __str__(self) -> str:
        what = "/".join(filter(None, (self.code, self.reason)))
        after = [] if self.retry_after is None else [f"retry after {self.retry_after:g} s"]
        return "; ".join([f"{what}: {self.message}", *self.violations, *after])


def _status(error: grpc.aio.AioRpcError) -> Status:
    for key, value in error.trailing_metadata() or ():
        if key == DETAILS and isinstance(value, bytes):
            try:
                return Status.FromString(value)
            except DecodeError:
                break
    return Status()


def _detail(status: Status, wanted: Detail) -> Detail | None:
    return next((wanted for detail in status.details if detail.Unpack(wanted)), None)
