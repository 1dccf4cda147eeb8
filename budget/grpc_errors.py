"""What a failed RPC means: status, `google.rpc.ErrorInfo`, `RetryInfo` and pushback in one typed error."""

import math
import re
from typing import Any, Final, Protocol, TypeVar

import grpc.aio
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from budget.errors import UpstreamError, UpstreamTimeout
from budget.policy import Policy

PUSHBACK_KEY: Final = "grpc-retry-pushback-ms"
"""gRFC A6: milliseconds until the server wants to see a retry; negative or unreadable = it wants none."""

DETAILS_KEY: Final = "grpc-status-details-bin"

_REASON: Final = re.compile(r"[A-Z][A-Z0-9_]{0,62}")


class FailedCall(Protocol):
    """What the errors of gRPC's two Python clients have in common."""

    def code(self) -> Any:
        """The status code."""

    def trailing_metadata(self) -> Any:
        """Pairs of key and value; may be None."""


def typed_error(error: grpc.aio.AioRpcError, policy: Policy) -> UpstreamTimeout | UpstreamError:
    """DEADLINE_EXCEEDED, whoever says it, is a timeout of the dependency; all else is an UpstreamError."""
    status = rich_status(error)
    info = detail_of(status, ErrorInfo())
    reason = info.reason if info and _REASON.fullmatch(info.reason) else ""
    metadata = dict(info.metadata) if info else None
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        return UpstreamTimeout(
            dependency=policy.dependency,
            method=policy.method,
            limit=policy.limit,
            upstream_reason=reason,
            upstream_metadata=metadata,
        )
    return UpstreamError(
        dependency=policy.dependency,
        method=policy.method,
        code=error.code().name,
        upstream_reason=reason,
        upstream_metadata=metadata,
        pushback=pushback_of(error, status),
        details=error.details() or "",
    )


def is_bare_deadline(error: grpc.aio.AioRpcError) -> bool:
    """True for a DEADLINE_EXCEEDED without details: C core says that, ours or the peer's, never one of us."""
    return error.code() is grpc.StatusCode.DEADLINE_EXCEEDED and rich_status(error) is None


def rich_status(error: FailedCall) -> Status | None:
    """The status with its details; None when whoever answered gave none, or none that can be read."""
    for key, value in error.trailing_metadata() or ():
        if key == DETAILS_KEY and isinstance(value, bytes):
            return _parsed(value)
    return None


def _parsed(value: bytes) -> Status | None:
    try:
        return Status.FromString(value)
    except DecodeError:
        return None


Detail = TypeVar("Detail", BadRequest, ErrorInfo, RetryInfo)


def detail_of(status: Status | None, wanted: Detail) -> Detail | None:
    """`wanted`, filled with the detail of its type; None when there is no such detail."""
    details = status.details if status else ()
    return next((wanted for detail in details if detail.Unpack(wanted)), None)


def pushback_of(error: FailedCall, status: Status | None) -> float | None:
    """Seconds until the server wants to be asked again; `math.inf` = never; None = it did not say."""
    for key, value in error.trailing_metadata() or ():
        if key == PUSHBACK_KEY:
            return _milliseconds(value)
    told = detail_of(status, RetryInfo())
    return told.retry_delay.seconds + told.retry_delay.nanos / 1e9 if told else None


def _milliseconds(value: str | bytes) -> float:
    text = value.decode(errors="replace") if isinstance(value, bytes) else value
    return int(text) / 1000 if re.fullmatch(r"\d{1,10}", text) else math.inf
