"""Requests to what the use cases take, every violation of a request at once."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from budget.retry import RETRY_HEADER, incoming_attempt
from hourglass.jobs.v1 import job_pb2
from hourglass.jobs.v1 import jobs_service_pb2 as pb
from jobs_service.domain.caller import Caller
from jobs_service.domain.faults import Faults
from jobs_service.domain.limits import LONGEST_KEY, LONGEST_REASON, Limits
from jobs_service.domain.new_job import CreateRequest
from jobs_service.domain.page_token import FIRST_PAGE, MalformedToken, position_of
from jobs_service.domain.quoting import QuoteDraft, QuoteQuestion, checked_question
from jobs_service.domain.spec import checked_spec
from jobs_service.rpc.read_spec import read_messages, read_spec
from jobs_service.service.listing import PageRequest
from jobs_service.service.watching import WatchRequest
from jobs_store.events import EventKind
from jobs_store.identifiers import JobId, QuoteId, Sequence, TenantId
from jobs_store.reading import JobFilter
from jobs_store.states import JobState
from servicekit.call import Call
from servicekit.wire_time import MalformedTime, datetime_of
from wire.enums import from_wire
from wire.events import kind_of

DEFAULT_PAGE_SIZE: Final = 50
LARGEST_PAGE_SIZE: Final = 200
_NOBODY: Final = UUID(int=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequest:
    """A cancel, checked."""

    job_id: JobId
    reason: str


def read_caller(call: Call) -> Caller:
    """Who asks, of a call whose principal is known."""
    return Caller(
        tenant=TenantId(call.principal.tenant),
        user=call.principal.user,
        traceparent=call.traceparent,
        tracestate=call.tracestate,
        retry_attempt=incoming_attempt(call.metadata.get(RETRY_HEADER)),
    )


def read_quote(request: pb.QuoteRequest, limits: Limits) -> QuoteQuestion:
    """Raises InvalidRequest."""
    faults = Faults()
    draft = QuoteDraft(
        models=tuple(request.models),
        messages=read_messages(request.messages),
        input_token_bound=request.input_token_bound if request.HasField("input_token_bound") else None,
        max_output_tokens=(
            request.max_output_token_count if request.HasField("max_output_token_count") else None
        ),
    )
    question = checked_question(draft, faults, limits=limits)
    faults.raise_if_any()
    return question


def read_create(request: pb.CreateJobRequest, limits: Limits, *, now: datetime) -> CreateRequest:
    """Raises InvalidRequest."""
    faults = Faults()
    faults.check_text("idempotency_key", request.idempotency_key, longest=LONGEST_KEY)
    quote_id = _uuid(request.quote_id, "quote_id", faults) if request.quote_id else None
    if not request.HasField("spec"):
        faults.add("spec", "is required")
        faults.raise_if_any()
    within_spec = faults.within("spec")
    draft = read_spec(request.spec, within_spec)
    spec = checked_spec(draft, within_spec, limits=limits, now=now)
    faults.raise_if_any()
    return CreateRequest(
        idempotency_key=request.idempotency_key,
        draft=draft,
        spec=spec,
        quote_id=None if quote_id is None else QuoteId(quote_id),
    )


def read_job_id(job_id: str) -> JobId:
    """Raises InvalidRequest."""
    faults = Faults()
    checked = check_job_id(job_id, faults)
    faults.raise_if_any()
    return checked


def check_job_id(job_id: str, faults: Faults, field: str = "job_id") -> JobId:
    """A field of a request that names a job."""
    return JobId(_uuid(job_id, field, faults))


def read_cancel(request: pb.CancelJobRequest) -> CancelRequest:
    """Raises InvalidRequest."""
    faults = Faults()
    job_id = _uuid(request.job_id, "job_id", faults)
    faults.check_text("reason", request.reason, shortest=0, longest=LONGEST_REASON)
    faults.raise_if_any()
    return CancelRequest(job_id=JobId(job_id), reason=request.reason)


def read_watch(request: pb.WatchJobRequest, tenant: TenantId) -> WatchRequest:
    """Raises InvalidRequest."""
    faults = Faults()
    job_id = _uuid(request.job_id, "job_id", faults)
    if request.after_sequence < 0:
        faults.add("after_sequence", "must not be negative")
    kinds = _kinds(request.kinds, faults)
    faults.raise_if_any()
    return WatchRequest(
        tenant=tenant,
        job_id=JobId(job_id),
        after=Sequence(request.after_sequence),
        kinds=kinds,
        replay_only=request.replay_only,
    )


def read_page(request: pb.ListJobsRequest, tenant: TenantId) -> PageRequest:
    """Raises InvalidRequest."""
    faults = Faults()
    if request.page_size < 0:
        faults.add("page_size", "must not be negative")
    faults.check_storable("model", request.model)
    wanted = JobFilter(
        states=_states(request.states, faults) or None,
        model=request.model or None,
        created_from=_time(request, "create_time_from", faults),
        created_before=_time(request, "create_time_before", faults),
    )
    before = _position(request.page_token, tenant, wanted, faults)
    faults.raise_if_any()
    size = min(request.page_size or DEFAULT_PAGE_SIZE, LARGEST_PAGE_SIZE)
    return PageRequest(wanted=wanted, before=before, size=size)


def _position(token: str, tenant: TenantId, wanted: JobFilter, faults: Faults) -> JobId:
    try:
        return position_of(token, tenant=tenant, wanted=wanted)
    except MalformedToken as error:
        faults.add("page_token", str(error))
        return FIRST_PAGE


def _states(numbers: Iterable[int], faults: Faults) -> list[JobState]:
    found = []
    for index, number in enumerate(numbers):
        state = from_wire(job_pb2.JobState, number, JobState)
        if state is None:
            faults.add(f"states[{index}]", f"is no state of a job: {number}")
        else:
            found.append(state)
    return found


def _kinds(numbers: Iterable[int], faults: Faults) -> frozenset[EventKind]:
    found = set()
    for index, number in enumerate(numbers):
        kind = kind_of(number)
        if kind is None:
            faults.add(f"kinds[{index}]", f"is no kind of event: {number}")
        else:
            found.add(kind)
    return frozenset(found)


def _time(request: pb.ListJobsRequest, field: str, faults: Faults) -> datetime | None:
    if not request.HasField(field):  # type: ignore[arg-type]  # the stub wants a literal name
        return None
    try:
        return datetime_of(getattr(request, field))
    except MalformedTime as error:
        faults.add(field, str(error))
        return None


def _uuid(text: str, field: str, faults: Faults) -> UUID:
    """The id in its one usual form; what else the parser would take is refused."""
    try:
        parsed = UUID(text)
    except ValueError:
        parsed = None
    if parsed is None or str(parsed) != text.lower():
        faults.add(field, "must be a UUID" if text else "is required")
        return _NOBODY
    return parsed
