"""Lanes and workers: where jobs queue, and who runs them."""

from collections.abc import Mapping, Sequence
from typing import Final

from hourglass.jobs.v1.admin_service_pb2 import (
    Lane,
    LaneState,
    ListLanesRequest,
    ListLanesResponse,
    ListWorkersRequest,
    ListWorkersResponse,
    PauseLaneRequest,
    ResumeLaneRequest,
    UpdateLaneRequest,
    WorkerSummary,
)
from jobsctl.decision import Decision, request_id_of, show_decided
from jobsctl.session import LARGEST_PAGE, Session
from presentation.values import ABSENT, moment, short_name

LANE_COLUMNS: Final = ("lane", "state", "cause", "parked until", "running", "limit", "queued", "oldest ready")
WORKER_COLUMNS: Final = ("worker", "address", "running", "earliest lease ends")


async def list_lanes(session: Session) -> None:
    """All lanes, by name."""
    found = ListLanesResponse()
    while True:
        request = ListLanesRequest(page_size=LARGEST_PAGE, page_token=found.next_page_token)
        page = await session.call("ListLanes", session.admin.ListLanes, request)
        found.lanes.extend(page.lanes)
        found.next_page_token = page.next_page_token
        if not page.next_page_token:
            break
    if session.printer.json:
        session.printer.message(found)
    else:
        session.printer.table(LANE_COLUMNS, map(_row, found.lanes), right=("running", "limit", "queued"))


async def list_workers(session: Session) -> None:
    """The workers that were seen lately, by name."""
    found = ListWorkersResponse()
    while True:
        request = ListWorkersRequest(page_size=LARGEST_PAGE, page_token=found.next_page_token)
        page = await session.call("ListWorkers", session.admin.ListWorkers, request)
        found.workers.extend(page.workers)
        found.next_page_token = page.next_page_token
        if not page.next_page_token:
            break
    if session.printer.json:
        session.printer.message(found)
    else:
        session.printer.table(WORKER_COLUMNS, map(_worker_row, found.workers), right=("running",))


async def update(session: Session, lane: str, *, max_running: int, decision: Decision) -> None:
    """The lane's limit over all workers; 0 removes it."""
    request = UpdateLaneRequest(
        lane=lane,
        max_running_count=max_running,
        request_id=request_id_of(decision, session.printer),
        reason=decision.reason,
    )
    answer = await session.call("UpdateLane", session.admin.UpdateLane, request)
    show_decided(session.printer, answer, _facts(answer.lane))


async def pause(session: Session, lane: str, decision: Decision) -> None:
    """Nothing is claimed from the lane any more."""
    request = PauseLaneRequest(
        lane=lane, request_id=request_id_of(decision, session.printer), reason=decision.reason
    )
    answer = await session.call("PauseLane", session.admin.PauseLane, request)
    show_decided(session.printer, answer, _facts(answer.lane))


async def resume(session: Session, lane: str, decision: Decision) -> None:
    """A pause or a parking ends."""
    request = ResumeLaneRequest(
        lane=lane, request_id=request_id_of(decision, session.printer), reason=decision.reason
    )
    answer = await session.call("ResumeLane", session.admin.ResumeLane, request)
    show_decided(session.printer, answer, _facts(answer.lane))


def _row(lane: Lane) -> Sequence[str]:
    return (
        lane.lane,
        _state(lane),
        lane.state_cause or ABSENT,
        moment(lane.park_until_time),
        str(lane.running_count),
        _limit(lane),
        str(lane.queued_count),
        moment(lane.oldest_ready_time),
    )


def _facts(lane: Lane) -> Mapping[str, str]:
    return {
        "lane": lane.lane,
        "state": f"{_state(lane)} ({lane.state_cause})" if lane.state_cause else _state(lane),
        "paused": moment(lane.pause_time) if lane.HasField("pause_time") else "",
        "parked until": moment(lane.park_until_time) if lane.HasField("park_until_time") else "",
        "running": f"{lane.running_count} of {_limit(lane)}",
        "queued": str(lane.queued_count),
        "oldest ready": moment(lane.oldest_ready_time),
    }


def _worker_row(worker: WorkerSummary) -> Sequence[str]:
    lease = moment(worker.earliest_lease_expire_time)
    return worker.worker_id, worker.address, str(worker.running_count), lease


def _state(lane: Lane) -> str:
    return short_name(LaneState, lane.state)


def _limit(lane: Lane) -> str:
    return str(lane.max_running_count) if lane.HasField("max_running_count") else "no limit"
