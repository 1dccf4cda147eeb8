"""Decisions about single jobs, checked: every violation of a request at once."""

from hourglass.jobs.v1 import jobs_service_pb2 as pb
from jobs_service.domain.caller import Caller
from jobs_service.domain.faults import Faults
from jobs_service.domain.limits import LONGEST_KEY, LONGEST_REASON
from jobs_service.rpc.requests import check_job_id
from jobs_store.operator_decisions import Decision, Resolution
from wire.enums import from_wire

AnyDecision = pb.RetryJobRequest | pb.ResolveJobRequest | pb.EraseJobContentRequest


def read_decision(request: AnyDecision, caller: Caller) -> Decision:
    """The actor is the caller. Raises InvalidRequest."""
    faults = Faults()
    decision = _checked(request, caller, faults)
    faults.raise_if_any()
    return decision


def read_resolution(request: pb.ResolveJobRequest, caller: Caller) -> tuple[Decision, Resolution]:
    """As `read_decision`, with what becomes of the job."""
    faults = Faults()
    decision = _checked(request, caller, faults)
    resolution = from_wire(pb.JobResolution, request.resolution, Resolution)
    if resolution is None:
        faults.add("resolution", _why_none(request.resolution))
    faults.raise_if_any()
    assert resolution is not None, "a fault was raised"
    return decision, resolution


def _checked(request: AnyDecision, caller: Caller, faults: Faults) -> Decision:
    job_id = check_job_id(request.job_id, faults)
    faults.check_text("request_id", request.request_id, longest=LONGEST_KEY)
    faults.check_text("reason", request.reason, longest=LONGEST_REASON)
    return Decision(
        tenant=caller.tenant,
        job_id=job_id,
        request_id=request.request_id,
        actor=caller.user,
        reason=request.reason,
    )


def _why_none(number: int) -> str:
    return f"is no resolution: {number}" if number else "is required"
