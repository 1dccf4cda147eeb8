"""AdminService: lanes."""

from typing_extensions import override

from hourglass.jobs.v1 import admin_service_pb2 as pb
from jobs_service.domain.name_token import name_token
from jobs_service.rpc.admin.checks import read_name_page
from jobs_service.rpc.admin.read_lane import read_lane_change, read_lane_limit
from jobs_service.rpc.admin.room import Context, Room
from jobs_store.lanes import Lane
from servicekit.call import call_of
from servicekit.wire_time import timestamp_of
from wire.enums import to_wire


class LaneRoom(Room):
    """Lanes: looked at, limited, paused, resumed."""

    @override
    async def ListLanes(self, request: pb.ListLanesRequest, context: Context) -> pb.ListLanesResponse:
        call = call_of(context)
        page = read_name_page(request, "ListLanes")
        found = await self._use.lanes.page(start=page.start, size=page.size + 1, budget=call.budget)
        token = name_token("ListLanes", found[-1].lane) if len(found) > page.size else ""
        return pb.ListLanesResponse(lanes=map(_message, found[: page.size]), next_page_token=token)

    @override
    async def UpdateLane(self, request: pb.UpdateLaneRequest, context: Context) -> pb.UpdateLaneResponse:
        call = call_of(context)
        limit, asked = read_lane_limit(request, call.principal.user)
        lane, replayed = await self._use.lane_control.limit(request.lane, limit, asked, budget=call.budget)
        return pb.UpdateLaneResponse(lane=_message(lane), replayed=replayed)

    @override
    async def PauseLane(self, request: pb.PauseLaneRequest, context: Context) -> pb.PauseLaneResponse:
        call = call_of(context)
        asked = read_lane_change(request, call.principal.user)
        lane, replayed = await self._use.lane_control.pause(request.lane, asked, budget=call.budget)
        return pb.PauseLaneResponse(lane=_message(lane), replayed=replayed)

    @override
    async def ResumeLane(self, request: pb.ResumeLaneRequest, context: Context) -> pb.ResumeLaneResponse:
        call = call_of(context)
        asked = read_lane_change(request, call.principal.user)
        lane, replayed = await self._use.lane_control.resume(request.lane, asked, budget=call.budget)
        return pb.ResumeLaneResponse(lane=_message(lane), replayed=replayed)


def _message(lane: Lane) -> pb.Lane:
    message = pb.Lane(
        lane=lane.lane,
        state=to_wire(pb.LaneState, lane.state),
        state_cause=lane.state_cause,
        max_running_count=lane.max_running,
        running_count=lane.running,
        queued_count=lane.queued,
    )
    if lane.park_until is not None:
        message.park_until_time.CopyFrom(timestamp_of(lane.park_until))
    if lane.oldest_ready_time is not None:
        message.oldest_ready_time.CopyFrom(timestamp_of(lane.oldest_ready_time))
    if lane.paused_time is not None:
        message.pause_time.CopyFrom(timestamp_of(lane.paused_time))
    return message
