"""AdminService: decisions about many jobs, each call a stream of pages."""

from collections.abc import Sequence

from typing_extensions import override

from hourglass.jobs.v1 import admin_service_pb2 as pb
from hourglass.jobs.v1 import job_pb2
from jobs_service.rpc.admin.read_bulk import BulkRequest, read_order
from jobs_service.rpc.admin.room import Context, Room
from jobs_store.bulk import BulkAction
from jobs_store.foresight import BulkOutcome
from servicekit.call import call_of
from wire.enums import to_wire

BulkResponse = (
    type[pb.BulkRetryJobsResponse] | type[pb.BulkResolveJobsResponse] | type[pb.BulkCancelJobsResponse]
)


class BulkRoom(Room):
    """Retries, resolutions, cancels."""

    @override
    async def BulkRetryJobs(  # type: ignore[override]  # grpc.aio takes coroutines that write, too
        self, request: pb.BulkRetryJobsRequest, context: Context
    ) -> None:
        await self._run(request, BulkAction.RETRY, pb.BulkRetryJobsResponse, context)

    @override
    async def BulkResolveJobs(  # type: ignore[override]  # grpc.aio takes coroutines that write, too
        self, request: pb.BulkResolveJobsRequest, context: Context
    ) -> None:
        await self._run(request, BulkAction.RESOLVE, pb.BulkResolveJobsResponse, context)

    @override
    async def BulkCancelJobs(  # type: ignore[override]  # grpc.aio takes coroutines that write, too
        self, request: pb.BulkCancelJobsRequest, context: Context
    ) -> None:
        await self._run(request, BulkAction.CANCEL, pb.BulkCancelJobsResponse, context)

    async def _run(
        self, request: BulkRequest, action: BulkAction, response: BulkResponse, context: Context
    ) -> None:
        call = call_of(context)

        async def send(outcomes: Sequence[BulkOutcome]) -> None:
            await context.write(response(outcomes=map(_message, outcomes)))

        order = read_order(request, action, call.principal.user)
        await self._use.bulk.run(order, send=send, draining=call.draining, budget=call.budget)


def _message(outcome: BulkOutcome) -> pb.BulkJobOutcome:
    return pb.BulkJobOutcome(
        tenant_id=outcome.tenant,
        job_id=str(outcome.job_id),
        state=to_wire(job_pb2.JobState, outcome.state),
        refused_reason=outcome.refused,
        replayed=outcome.replayed,
    )
