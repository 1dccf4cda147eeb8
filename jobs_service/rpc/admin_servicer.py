"""AdminService over gRPC: tenants. What this version does not fill is refused with its name."""

from collections.abc import AsyncIterator
from typing import Any

import grpc
from typing_extensions import override

from hourglass.jobs.v1 import admin_service_pb2 as pb
from hourglass.jobs.v1 import admin_service_pb2_grpc as pb_grpc
from jobs_service.rpc.admin_requests import read_funding, read_new_tenant, read_tenant_id
from jobs_service.rpc.not_filled import not_filled
from jobs_store.tenants import Tenant, TenantStore
from servicekit.call import call_of
from servicekit.errors import NotImplementedYet
from servicekit.wire_money import money_of
from servicekit.wire_time import timestamp_of

Context = grpc.aio.ServicerContext[Any, Any]


class AdminServicer(pb_grpc.AdminServiceServicer):
    """The methods of the contract. The actor is the principal."""

    def __init__(self, tenants: TenantStore) -> None:
        self._tenants = tenants

    @override
    async def CreateTenant(
        self, request: pb.CreateTenantRequest, context: Context
    ) -> pb.CreateTenantResponse:
        call = call_of(context)
        wanted = read_new_tenant(request)
        is_new = await self._tenants.register(
            wanted.tenant,
            display_name=wanted.display_name,
            limits=wanted.limits,
            request_id=request.request_id,
            actor=call.principal.user,
            reason=request.reason,
            budget=call.budget,
        )
        tenant = await self._tenants.get(wanted.tenant, budget=call.budget)
        return pb.CreateTenantResponse(tenant=_tenant_message(tenant), replayed=not is_new)

    @override
    async def GetTenant(self, request: pb.GetTenantRequest, context: Context) -> pb.GetTenantResponse:
        call = call_of(context)
        tenant = await self._tenants.get(read_tenant_id(request.tenant_id), budget=call.budget)
        return pb.GetTenantResponse(tenant=_tenant_message(tenant))

    @override
    async def FundTenant(self, request: pb.FundTenantRequest, context: Context) -> pb.FundTenantResponse:
        call = call_of(context)
        funding = read_funding(request)
        is_new = await self._tenants.fund(
            funding.tenant,
            funding.amount,
            request_id=request.request_id,
            actor=call.principal.user,
            reason=request.reason,
            budget=call.budget,
        )
        tenant = await self._tenants.get(funding.tenant, budget=call.budget)
        return pb.FundTenantResponse(tenant=_tenant_message(tenant), replayed=not is_new)

    @override
    async def UpdateTenant(
        self, request: pb.UpdateTenantRequest, context: Context
    ) -> pb.UpdateTenantResponse:
        raise NotImplementedYet("UpdateTenant")

    @override
    async def ListTenants(self, request: pb.ListTenantsRequest, context: Context) -> pb.ListTenantsResponse:
        raise NotImplementedYet("ListTenants")

    @override
    async def ListLanes(self, request: pb.ListLanesRequest, context: Context) -> pb.ListLanesResponse:
        raise NotImplementedYet("ListLanes")

    @override
    async def UpdateLane(self, request: pb.UpdateLaneRequest, context: Context) -> pb.UpdateLaneResponse:
        raise NotImplementedYet("UpdateLane")

    @override
    async def PauseLane(self, request: pb.PauseLaneRequest, context: Context) -> pb.PauseLaneResponse:
        raise NotImplementedYet("PauseLane")

    @override
    async def ResumeLane(self, request: pb.ResumeLaneRequest, context: Context) -> pb.ResumeLaneResponse:
        raise NotImplementedYet("ResumeLane")

    @override
    async def ListWorkers(self, request: pb.ListWorkersRequest, context: Context) -> pb.ListWorkersResponse:
        raise NotImplementedYet("ListWorkers")

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

    @override
    async def Verify(self, request: pb.VerifyRequest, context: Context) -> AsyncIterator[pb.VerifyResponse]:
        for response in not_filled("Verify"):
            yield response


def _tenant_message(tenant: Tenant) -> pb.Tenant:
    return pb.Tenant(
        tenant_id=tenant.tenant_id,
        display_name=tenant.display_name,
        funds=pb.Funds(
            funded_amount=money_of(tenant.funded),
            available_amount=money_of(tenant.available),
            reserved_amount=money_of(tenant.reserved),
            captured_amount=money_of(tenant.captured),
        ),
        limits=pb.TenantLimits(
            max_running_count=tenant.max_running,
            max_queued_count=tenant.max_queued,
            weight=tenant.weight,
        ),
        queued_count=tenant.queued,
        running_count=tenant.running,
        create_time=timestamp_of(tenant.create_time),
        update_time=timestamp_of(tenant.update_time),
    )
