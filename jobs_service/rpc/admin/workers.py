"""AdminService: workers."""

from typing_extensions import override

from hourglass.jobs.v1 import admin_service_pb2 as pb
from jobs_service.domain.name_token import name_token
from jobs_service.rpc.admin.checks import read_name_page
from jobs_service.rpc.admin.room import Context, Room
from jobs_store.workers import RunningWorker
from servicekit.call import call_of
from servicekit.wire_time import timestamp_of


class WorkerRoom(Room):
    """Workers: looked at."""

    @override
    async def ListWorkers(self, request: pb.ListWorkersRequest, context: Context) -> pb.ListWorkersResponse:
        call = call_of(context)
        page = read_name_page(request, "ListWorkers")
        found = await self._use.workers.page(after=page.start, size=page.size + 1, budget=call.budget)
        shown = found[: page.size]
        more = len(found) > page.size
        token = name_token("ListWorkers", shown[-1].worker_id) if more else ""
        return pb.ListWorkersResponse(workers=map(_message, shown), next_page_token=token)


def _message(worker: RunningWorker) -> pb.WorkerSummary:
    return pb.WorkerSummary(
        worker_id=worker.worker_id,
        address=worker.address,
        running_count=worker.running,
        earliest_lease_expire_time=timestamp_of(worker.earliest_lease_until),
    )
