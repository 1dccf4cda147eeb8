"""AdminService over gRPC: all of its rooms. What this version does not fill is refused with its name."""

from collections.abc import AsyncIterator

from typing_extensions import override

from hourglass.jobs.v1 import admin_service_pb2 as pb
from jobs_service.rpc.admin.lanes import LaneRoom
from jobs_service.rpc.admin.room import Context
from jobs_service.rpc.admin.tenants import TenantRoom
from jobs_service.rpc.admin.verify import VerifyRoom
from jobs_service.rpc.admin.workers import WorkerRoom
from jobs_service.rpc.not_filled import not_filled


class AdminServicer(TenantRoom, LaneRoom, WorkerRoom, VerifyRoom):
    """The methods of the contract."""

    @override
    async def BulkRetryJobs(
        self, request: pb.BulkRetryJobsRequest, context: Context
    ) -> AsyncIterator[pb.BulkRetryJobsResponse]:
        for response in not_filled("BulkRetryJobs"):
            yield response

    @override
    async def BulkResolveJobs(
        self, request: pb.BulkResolveJobsRequest, context: Context
    ) -> AsyncIterator[pb.BulkResolveJobsResponse]:
        for response in not_filled("BulkResolveJobs"):
            yield response

    @override
    async def BulkCancelJobs(
        self, request: pb.BulkCancelJobsRequest, context: Context
    ) -> AsyncIterator[pb.BulkCancelJobsResponse]:
        for response in not_filled("BulkCancelJobs"):
            yield response
