"""Bulk calls, checked: every violation of a request at once."""

from datetime import datetime
from typing import Final

from hourglass.jobs.v1 import admin_service_pb2 as pb
from hourglass.jobs.v1 import jobs_service_pb2
from jobs_service.domain.faults import Faults
from jobs_service.rpc.admin.checks import LONGEST_LANE, check_request, check_tenant
from jobs_service.rpc.requests import check_job_id
from jobs_store.bulk import BulkAction, BulkOrder
from jobs_store.identifiers import JobId, TenantId
from jobs_store.job_search import JobsMeant
from jobs_store.operator_decisions import Resolution
from jobs_store.states import Cause
from servicekit.wire_time import MalformedTime, datetime_of
from wire.enums import from_wire

BulkRequest = pb.BulkRetryJobsRequest | pb.BulkResolveJobsRequest | pb.BulkCancelJobsRequest

MOST_JOB_IDS: Final = 1000


def read_order(request: BulkRequest, action: BulkAction, actor: str) -> BulkOrder:
    """Raises InvalidRequest."""
    faults = Faults()
    asked = check_request(request, actor, faults)
    resolution = _resolution(request, faults) if isinstance(request, pb.BulkResolveJobsRequest) else None
    meant = _meant(request, faults)
    faults.raise_if_any()
    return BulkOrder(
        action=action, meant=meant, request=asked, resolution=resolution, dry_run=request.dry_run
    )


def _resolution(request: pb.BulkResolveJobsRequest, faults: Faults) -> Resolution | None:
    number = request.resolution
    resolution = from_wire(jobs_service_pb2.JobResolution, number, Resolution)
    if resolution is None:
        faults.add("resolution", f"is no resolution: {number}" if number else "is required")
    return resolution


def _meant(request: BulkRequest, faults: Faults) -> JobsMeant:
    if not request.filter.ListFields():
        faults.add("filter", "set at least one field: a bulk call about all jobs there are is not taken")
    return _filter(request.filter, faults.within("filter"))


def _filter(wanted: pb.JobFilter, faults: Faults) -> JobsMeant:
    faults.check_text("lane", wanted.lane, shortest=0, longest=LONGEST_LANE)
    created_from = _time(wanted, "create_time_from", faults)
    created_before = _time(wanted, "create_time_before", faults)
    if created_from and created_before and created_from >= created_before:
        faults.add("create_time_before", "must be later than create_time_from")
    return JobsMeant(
        tenant=_tenant(wanted, faults),
        lane=wanted.lane or None,
        state_cause=_cause(wanted.state_cause, faults),
        created_from=created_from,
        created_before=created_before,
        job_ids=_job_ids(wanted, faults),
    )


def _tenant(wanted: pb.JobFilter, faults: Faults) -> TenantId | None:
    """Jobs are found by their tenant and id, so ids alone would name no job for certain."""
    if wanted.tenant_id:
        return check_tenant(wanted.tenant_id, faults)
    if wanted.job_ids:
        faults.add("tenant_id", "is required where job_ids are set")
    return None


def _cause(text: str, faults: Faults) -> str | None:
    if text and text not in Cause.__members__:
        faults.add("state_cause", f"is no cause of a state: {text}")
    return text or None


def _job_ids(wanted: pb.JobFilter, faults: Faults) -> tuple[JobId, ...]:
    faults.check_count("job_ids", wanted.job_ids, MOST_JOB_IDS)
    named = enumerate(wanted.job_ids[:MOST_JOB_IDS])
    return tuple(sorted({check_job_id(job_id, faults, f"job_ids[{index}]") for index, job_id in named}))


def _time(wanted: pb.JobFilter, field: str, faults: Faults) -> datetime | None:
    if not wanted.HasField(field):  # type: ignore[arg-type]  # the stub wants a literal name
        return None
    try:
        return datetime_of(getattr(wanted, field))
    except MalformedTime as error:
        faults.add(field, str(error))
        return None
