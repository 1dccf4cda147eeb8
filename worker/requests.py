"""Reads and checks the requests of WorkerService; every violation at once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import UUID

from jobs_store.identifiers import JobId, Sequence, TenantId
from servicekit.errors import FieldViolation, InvalidRequest
from servicekit.wire_time import MalformedTime, seconds_of

if TYPE_CHECKING:
    from hourglass.worker.v1 import worker_service_pb2 as pb

_TENANT: Final = re.compile(r"[a-z0-9-]{1,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressQuestion:
    """Whose events, and after which."""

    tenant: TenantId
    job_id: JobId
    cursor: Sequence


def progress_question(request: pb.StreamProgressRequest) -> ProgressQuestion:
    """Raises InvalidRequest."""
    violations = []
    job_id = _uuid(request.job_id)
    if not _TENANT.fullmatch(request.tenant_id):
        violations.append(FieldViolation("tenant_id", f"must match {_TENANT.pattern}"))
    if job_id is None:
        violations.append(FieldViolation("job_id", "must be a UUID"))
    if request.after_sequence < 0:
        violations.append(FieldViolation("after_sequence", "must not be negative"))
    if violations or job_id is None:
        raise InvalidRequest(*violations)
    return ProgressQuestion(
        tenant=TenantId(request.tenant_id), job_id=job_id, cursor=Sequence(request.after_sequence)
    )


def grace_of(request: pb.DrainRequest) -> float | None:
    """Seconds that runs may go on; None for the worker's own. Raises InvalidRequest."""
    if not request.HasField("grace_duration"):
        return None
    try:
        grace = seconds_of(request.grace_duration)
    except MalformedTime as error:
        raise InvalidRequest(FieldViolation("grace_duration", str(error))) from error
    if grace < 0:
        raise InvalidRequest(FieldViolation("grace_duration", "must not be negative"))
    return grace


def _uuid(text: str) -> JobId | None:
    try:
        return JobId(UUID(text))
    except ValueError:
        return None
