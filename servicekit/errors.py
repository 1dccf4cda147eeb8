"""From an exception to the status that leaves the server.

An exception with a `reason` attribute that stands in servicekit.reasons is known: its text and its
optional attributes go to the caller. Everything else becomes INTERNAL and says nothing of the inside.
Read where present: `metadata` (mapping of text), `violations` (FieldViolation), `retry_after` (seconds),
`subject` (whose quota, with RESOURCE_EXHAUSTED).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, PreconditionFailure, QuotaFailure, RetryInfo
from google.rpc.status_pb2 import Status
from grpc import StatusCode

from servicekit.reasons import DOMAIN, REASONS, Reason

MAX_MESSAGE_BYTES = 512
MAX_DETAILS_BYTES = 4096  # beyond 8 KiB of trailers clients see RESOURCE_EXHAUSTED instead of our code
_MAX_METADATA_VALUE_BYTES = 256
_MAX_METADATA_ENTRIES = 8
_MAX_DESCRIPTION_BYTES = 256


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """What is wrong with one field. `field` is its path in the request, such as `spec.messages[0].role`."""

    field: str
    description: str


class InvalidRequest(Exception):
    """The request is wrong; `violations` lists every field at once."""

    reason = "INVALID_ARGUMENT"

    def __init__(self, *violations: FieldViolation) -> None:
        self.violations: Sequence[FieldViolation] = violations
        super().__init__("; ".join(f"{v.field}: {v.description}" for v in violations))


class MethodNotFound(Exception):
    """This server has no such method."""

    reason = "METHOD_NOT_FOUND"

    def __init__(self, method: str) -> None:
        self.metadata = {"method": method}
        super().__init__(f"{method} is not served here")


class Draining(Exception):
    """The server is shutting down."""

    reason = "DRAINING"
    retry_after = 0.1

    def __init__(self) -> None:
        super().__init__("the server is shutting down")


class Resume(Exception):
    """A long stream ends on purpose and can be continued by its cursor."""

    reason = "RESUME"
    retry_after = 0.1

    def __init__(self) -> None:
        super().__init__("the stream was ended on purpose; continue after the last sequence that was read")


def reason_of(error: BaseException) -> Reason | None:
    """The table's line for an exception, or None when it is not ours to tell."""
    name = getattr(error, "reason", None)
    return REASONS.get(name) if isinstance(name, str) else None


def known_error(error: BaseException) -> BaseException:
    """The first known error inside an exception group, else the exception itself."""
    if isinstance(error, BaseExceptionGroup):
        inner = [known_error(child) for child in error.exceptions]
        return next((child for child in inner if reason_of(child)), error)
    return error


def status_of(error: BaseException) -> Status:
    """The google.rpc.Status of an exception, its details within MAX_DETAILS_BYTES."""
    reason = reason_of(error)
    if reason is None:
        return internal_status()
    return _fit(reason, error, tuple(getattr(error, "violations", ())))


def internal_status(reason: str = "INTERNAL") -> Status:
    """A status that tells only the reason: for faults of ours."""
    line = REASONS[reason]
    return _status(line, line.meaning, [ErrorInfo(reason=line.name, domain=DOMAIN)])


def status_of_code(code: StatusCode, details: str) -> Status:
    """The status of a bare code: its name is the reason."""
    info = ErrorInfo(reason=code.name, domain=DOMAIN)
    return Status(code=code.value[0], message=shorten(details), details=[_packed(info)])


def _fit(reason: Reason, error: BaseException, violations: tuple[FieldViolation, ...]) -> Status:
    """Halves the list of violations until the details fit, and counts what was left out."""
    kept = len(violations)
    status = _status(reason, str(error), _details(reason, error, violations, kept))
    while status.ByteSize() > MAX_DETAILS_BYTES and kept:
        kept //= 2
        status = _status(reason, str(error), _details(reason, error, violations, kept))
    if status.ByteSize() > MAX_DETAILS_BYTES:
        return _status(reason, str(error), [ErrorInfo(reason=reason.name, domain=DOMAIN)])
    return status


def _details(
    reason: Reason, error: BaseException, violations: tuple[FieldViolation, ...], kept: int
) -> list[Message]:
    details: list[Message] = [_error_info(reason, error, omitted=len(violations) - kept)]
    if (retry_after := getattr(error, "retry_after", None)) is not None:
        details.append(RetryInfo(retry_delay=_duration(retry_after)))
    if violations:
        details.append(_bad_request(violations[:kept]))
    if reason.code is StatusCode.RESOURCE_EXHAUSTED and (subject := getattr(error, "subject", None)):
        violation = QuotaFailure.Violation(subject=str(subject), description=shorten(str(error)))
        details.append(QuotaFailure(violations=[violation]))
    if reason.code is StatusCode.FAILED_PRECONDITION:
        details.append(_precondition(reason, error))
    return details


def _error_info(reason: Reason, error: BaseException, *, omitted: int) -> ErrorInfo:
    metadata: Mapping[str, object] = getattr(error, "metadata", None) or {}
    kept = list(metadata.items())[:_MAX_METADATA_ENTRIES]
    texts = {key: shorten(str(value), _MAX_METADATA_VALUE_BYTES) for key, value in kept}
    if omitted:
        texts["omitted_violations"] = str(omitted)
    return ErrorInfo(reason=reason.name, domain=DOMAIN, metadata=texts)


def _bad_request(violations: Sequence[FieldViolation]) -> BadRequest:
    return BadRequest(
        field_violations=[
            BadRequest.FieldViolation(
                field=shorten(violation.field, _MAX_DESCRIPTION_BYTES),
                description=shorten(violation.description, _MAX_DESCRIPTION_BYTES),
            )
            for violation in violations
        ]
    )


def _precondition(reason: Reason, error: BaseException) -> PreconditionFailure:
    subject = shorten(str(getattr(error, "subject", "")), _MAX_DESCRIPTION_BYTES)
    violation = PreconditionFailure.Violation(
        type=reason.name, subject=subject, description=shorten(str(error))
    )
    return PreconditionFailure(violations=[violation])


def _status(reason: Reason, message: str, details: Sequence[Message]) -> Status:
    packed = [_packed(detail) for detail in details]
    return Status(code=reason.code.value[0], message=shorten(message or reason.meaning), details=packed)


def _packed(detail: Message) -> AnyMessage:
    packed = AnyMessage()
    packed.Pack(detail)
    return packed


def _duration(seconds: float) -> Duration:
    duration = Duration()
    duration.FromNanoseconds(max(0, round(seconds * 1e9)))
    return duration


def shorten(text: str, limit: int = MAX_MESSAGE_BYTES) -> str:
    """Cuts a text to `limit` bytes of UTF-8, with an ellipsis where something was cut."""
    raw = text.encode()
    if len(raw) <= limit:
        return text
    return raw[: limit - 3].decode(errors="ignore") + "..."
