"""Every call of the client as data: method, request, the time that it may take, whether to repeat it."""

from dataclasses import dataclass
from typing import Final, Generic, TypeVar
from uuid import uuid4

from hourglass.jobs.v1.job_pb2 import JobSpec
from hourglass.jobs.v1.jobs_service_pb2 import (
    CancelJobRequest,
    CancelJobResponse,
    CreateJobRequest,
    CreateJobResponse,
    GenerateRequest,
    GenerateResponse,
    GetJobRequest,
    GetJobResponse,
    JobResolution,
    QuoteRequest,
    QuoteResponse,
    ResolveJobRequest,
    ResolveJobResponse,
    RetryJobRequest,
    RetryJobResponse,
    WaitJobRequest,
    WaitJobResponse,
)

Request = TypeVar("Request")
Response = TypeVar("Response")

LONGEST_WAIT: Final = 300.0
"""Seconds that the server lets one WaitJob take; a longer wait is several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[Request, Response]):
    """One call.

    method: the stub's. limit: seconds it takes when nobody says so: the longest budget that the contract
    gives it. repeatable: asking twice does no harm. key: what makes it so, where something has to.
    """

    method: str
    request: Request
    limit: float
    repeatable: bool = True
    key: str = ""


def quote(request: QuoteRequest) -> Call[QuoteRequest, QuoteResponse]:
    """A second quote is another quote, and costs nothing."""
    return Call(method="Quote", request=request, limit=5.0)


def create(spec: JobSpec, *, key: str | None, quote_id: str) -> Call[CreateJobRequest, CreateJobResponse]:
    """Made safe by its key."""
    named = _named(key)
    request = CreateJobRequest(idempotency_key=named, spec=spec, quote_id=quote_id)
    return Call(method="CreateJob", request=request, limit=10.0, key=named)


def get(job_id: str, *, attempts: bool, content: bool) -> Call[GetJobRequest, GetJobResponse]:
    """A read."""
    request = GetJobRequest(job_id=job_id, include_attempts=attempts, include_content=content)
    return Call(method="GetJob", request=request, limit=5.0)


def wait(job_id: str, *, content: bool) -> Call[WaitJobRequest, WaitJobResponse]:
    """A read."""
    request = WaitJobRequest(job_id=job_id, include_content=content)
    return Call(method="WaitJob", request=request, limit=LONGEST_WAIT)


def cancel(job_id: str, *, reason: str) -> Call[CancelJobRequest, CancelJobResponse]:
    """A second cancel finds what the first one did."""
    request = CancelJobRequest(job_id=job_id, reason=reason)
    return Call(method="CancelJob", request=request, limit=5.0)


def retry(job_id: str, *, reason: str, request_id: str | None) -> Call[RetryJobRequest, RetryJobResponse]:
    """Made safe by its request_id."""
    named = _named(request_id)
    request = RetryJobRequest(job_id=job_id, request_id=named, reason=reason)
    return Call(method="RetryJob", request=request, limit=5.0, key=named)


def resolve(
    job_id: str, resolution: JobResolution.ValueType, *, reason: str, request_id: str | None
) -> Call[ResolveJobRequest, ResolveJobResponse]:
    """Made safe by its request_id."""
    named = _named(request_id)
    request = ResolveJobRequest(job_id=job_id, resolution=resolution, request_id=named, reason=reason)
    return Call(method="ResolveJob", request=request, limit=5.0, key=named)


def generate(request: GenerateRequest) -> Call[GenerateRequest, GenerateResponse]:
    """Costs money each time."""
    return Call(method="Generate", request=request, limit=60.0, repeatable=False)


def _named(given: str | None) -> str:
    """An empty one is left as it is: the server says that it is missing."""
    return str(uuid4()) if given is None else given
