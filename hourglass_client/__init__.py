"""Durable LLM jobs for Python callers: a thin, typed layer over the generated stubs, which are enough too.

`Client` blocks, `AsyncClient` is for asyncio; both have the same methods, take and give the contract's
messages, and raise the errors of `hourglass_client.errors`. What this layer adds: one deadline over a whole
call with its retries, an idempotency key that outlives them, reading on across dropped streams, and typed
errors. docs/client.md shows it.
"""

from hourglass_client.client import Client
from hourglass_client.client_aio import AsyncClient
from hourglass_client.errors import (
    AlreadyExists,
    BrokenStream,
    Cancelled,
    DeadlineExceeded,
    FieldViolation,
    HourglassError,
    InternalError,
    InvalidRequest,
    NotFound,
    NotPermitted,
    OutOfRange,
    PreconditionFailed,
    ResourceExhausted,
    Unavailable,
)
from hourglass_client.patience import Terms
from hourglass_client.streams import Stream, Watch
from hourglass_client.streams_aio import AsyncStream, AsyncWatch
from hourglass_client.transcript import Transcript
from transport.files import TlsFiles, WrongFiles

__all__ = [
    "AlreadyExists",
    "AsyncClient",
    "AsyncStream",
    "AsyncWatch",
    "BrokenStream",
    "Cancelled",
    "Client",
    "DeadlineExceeded",
    "FieldViolation",
    "HourglassError",
    "InternalError",
    "InvalidRequest",
    "NotFound",
    "NotPermitted",
    "OutOfRange",
    "PreconditionFailed",
    "ResourceExhausted",
    "Stream",
    "Terms",
    "TlsFiles",
    "Transcript",
    "Unavailable",
    "Watch",
    "WrongFiles",
]
