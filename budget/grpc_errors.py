"""What a failed RPC means: status, `google.rpc.ErrorInfo`, `RetryInfo` and pushback in one typed error."""

import math
import re
from typing import Final, TypeVar

import grpc.aio
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from budget.errors import UpstreamError, UpstreamTimeout
from budget.policy import Policy

PUSHBACK_KEY: Final = "grpc-retry-pushback-ms"
"""gRFC A6: milliseconds until the server wants to see a retry; negative or unreadable = it wants none."""

DETAILS_KEY: Final = "grpc-status-details-bin"

_REASON: Final = re.compile(r"[A-Z][A-Z0-9_]{0,62}")


def typed_error(error: grpc.aio.AioRpcError, policy: Policy) -> UpstreamTimeout | UpstreamError:
    """DEADLINE_EXCEEDED, whoever says it, is a timeout of the dependency; all else is an UpstreamError."""
    status = _rich_status(error)
    info = _detail(status, ErrorInfo())
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
        pushback=_pushback(error, status),
        details=error.details() or "",
    )


def is_bare_deadline(error: grpc.aio.AioRpcError) -> bool:
    """True for a DEADLINE_EXCEEDED without details: C core says that, ours or the peer's, never one of us."""
    return error.code() is grpc.StatusCode.DEADLINE_EXCEEDED and _rich_status(error) is None


def _rich_status(error: grpc.aio.AioRpcError) -> Status | None:
    for key, value in error.trailing_metadata() or ():
        if key == DETAILS_KEY and isinstance(value, bytes):
            return _parsed(value)
    return None


def _parsed(value: bytes) -> Status | None:
    try:
        return Status.FromString(value)
    except DecodeError:
        return None


Detail = TypeVar("Detail", ErrorInfo, RetryInfo)


def _detail(status: Status | None, wanted: Detail) -> Detail | None:
    details = status.details if status else ()
    return next((wanted for detail in details if detail.Unpack(wanted)), None)


def _pushback(error: grpc.aio.AioRpcError, status: Status | None) -> float | None:
    for key, value in error.trailing_metadata() or ():
        if key == PUSHBACK_KEY:
            return _milliseconds(value)
    told = _detail(status, RetryInfo())
    return told.retry_delay.seconds + told.retry_delay.nanos / 1e9 if told else None


def _milliseconds(value: str | bytes) -> float:
    text = value.decode(errors="replace") if isinstance(value, bytes) else value
    return int(text) / 1000 if re.fullmatch(r"\d{1,10}", text) else math.inf
