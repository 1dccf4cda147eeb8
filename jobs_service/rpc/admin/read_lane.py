"""Requests about lanes, checked: every violation of a request at once."""

from typing import Final

from hourglass.jobs.v1 import admin_service_pb2 as pb
from jobs_service.domain.faults import Faults
from jobs_service.rpc.admin.checks import LONGEST_LANE, check_request
from jobs_store.operator_requests import OperatorRequest

_MOST_RUNNING: Final = 1_000_000


def read_lane_change(request: pb.PauseLaneRequest | pb.ResumeLaneRequest, actor: str) -> OperatorRequest:
    """Raises InvalidRequest."""
    faults = Faults()
    asked = check_request(request, actor, faults)
    faults.check_text("lane", request.lane, longest=LONGEST_LANE)
    faults.raise_if_any()
    return asked


def read_lane_limit(request: pb.UpdateLaneRequest, actor: str) -> tuple[int | None, OperatorRequest]:
    """Jobs that may run at once, None for any number. Raises InvalidRequest."""
    faults = Faults()
    asked = check_request(request, actor, faults)
    faults.check_text("lane", request.lane, longest=LONGEST_LANE)
    if request.HasField("max_running_count"):
        faults.check_range("max_running_count", request.max_running_count, 0, _MOST_RUNNING)
    else:
        faults.add("max_running_count", "is required: there is nothing else to change")
    faults.raise_if_any()
    return request.max_running_count or None, asked
