"""Reads and checks the requests of WorkerService; every violation at once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal
from uuid import UUID

from hourglass.jobs.v1 import job_pb2
from jobs_store.identifiers import JobId, Sequence, TenantId
from jobs_store.rate_card import MAX_TOKENS, MalformedRateCard
from servicekit.errors import FieldViolation, InvalidRequest
from servicekit.wire_time import MalformedTime, seconds_of
from wire.rate_card import rate_card_of
from worker.generating import ShortCall
from worker.providers.protocol import GenerationRequest, Message

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hourglass.jobs.v1 import jobs_service_pb2 as jobs_pb
    from hourglass.worker.v1 import worker_service_pb2 as pb

_TENANT: Final = re.compile(r"[a-z0-9-]{1,63}")
_ROLES: Final[Mapping[int, Literal["system", "user", "assistant"]]] = {
    job_pb2.ROLE_SYSTEM: "system",
    job_pb2.ROLE_USER: "user",
    job_pb2.ROLE_ASSISTANT: "assistant",
}


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


def short_call(request: pb.GenerateRequest) -> ShortCall:
    """What JobService has checked and priced. Raises InvalidRequest where that makes no sense."""
    asked, violations = request.request, []
    if _uuid(request.call_id) is None:
        violations.append(FieldViolation("call_id", "must be a UUID"))
    if not _TENANT.fullmatch(request.tenant_id):
        violations.append(FieldViolation("tenant_id", f"must match {_TENANT.pattern}"))
    if not asked.model or not asked.messages:
        violations.append(FieldViolation("request", "must have a model and messages"))
    if any(message.role not in _ROLES for message in asked.messages):
        violations.append(FieldViolation("request.messages", "must have a known role each"))
    if not 0 < asked.max_output_token_count <= MAX_TOKENS:
        violations.append(FieldViolation("request.max_output_token_count", "must be above 0"))
    if not 0 <= request.input_token_estimate <= MAX_TOKENS:
        violations.append(FieldViolation("input_token_estimate", "must not be negative"))
    try:
        card = rate_card_of(request.provider_rate_card)
    except MalformedRateCard as error:
        raise InvalidRequest(*violations, FieldViolation("provider_rate_card", str(error))) from error
    if violations:
        raise InvalidRequest(*violations)
    return ShortCall(
        request=_generation_request(asked, request.call_id),
        provider_rate_card=card,
        input_token_estimate=request.input_token_estimate,
    )


def _generation_request(asked: jobs_pb.GenerateRequest, call_id: str) -> GenerationRequest:
    sampling = asked.sampling
    return GenerationRequest(
        model=asked.model,
        messages=tuple(Message(role=_ROLES[m.role], content=m.content) for m in asked.messages),
        max_output_tokens=asked.max_output_token_count,
        request_key=call_id,
        temperature=sampling.temperature if sampling.HasField("temperature") else None,
        top_p=sampling.top_p if sampling.HasField("top_p") else None,
        stop=tuple(sampling.stop_sequences),
        seed=sampling.seed if sampling.HasField("seed") else None,
    )


def _uuid(text: str) -> JobId | None:
    try:
        return JobId(UUID(text))
    except ValueError:
        return None
