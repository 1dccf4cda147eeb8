"""GenerateRequest to a checked spec: the rules are a JobSpec's, of which a short call has a part."""

from datetime import datetime
from typing import Final

from hourglass.jobs.v1 import job_pb2
from hourglass.jobs.v1 import jobs_service_pb2 as pb
from jobs_service.domain.faults import Faults
from jobs_service.domain.limits import Limits
from jobs_service.domain.short_call import checked_short_call
from jobs_service.domain.spec import Spec
from jobs_service.rpc.read_spec import read_spec

_SHARED: Final = ("model", "messages", "max_output_token_count", "sampling", "max_charge")


def read_generate(request: pb.GenerateRequest, limits: Limits, *, now: datetime) -> Spec:
    """Raises InvalidRequest."""
    faults = Faults()
    draft = read_spec(_as_spec(request), faults)
    spec = checked_short_call(draft, faults, limits=limits, now=now)
    faults.raise_if_any()
    return spec


def _as_spec(request: pb.GenerateRequest) -> job_pb2.JobSpec:
    given = {field.name: value for field, value in request.ListFields() if field.name in _SHARED}
    return job_pb2.JobSpec(**given)
