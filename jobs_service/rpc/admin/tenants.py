"""AdminService: tenants."""

from typing_extensions import override

from hourglass.jobs.v1 import admin_service_pb2 as pb
from jobs_service.domain.name_token import name_token
from jobs_service.rpc.admin.checks import read_name_page
from jobs_service.rpc.admin.read_tenant import read_change, read_funding, read_new_tenant, read_tenant_id
from jobs_service.rpc.admin.room import Context, Room
from jobs_store.tenants import OwnLifetimes, Tenant
from servicekit.call import call_of
from servicekit.wire_money import money_of
from servicekit.wire_time import duration_of, timestamp_of


class TenantRoom(Room):
    """Tenants: made, changed, funded, looked at."""

    @override
    async def CreateTenant(
        self, request: pb.CreateTenantRequest, context: Context
    ) -> pb.CreateTenantResponse:
        call = call_of(context)
        wanted = read_new_tenant(request, call.principal.user, self._use.lifetimes)
        is_new = await self._use.tenants.register(
            wanted.tenant,
            display_name=wanted.display_name,
            limits=wanted.limits,
            retention=wanted.retention,
            request=wanted.request,
            budget=call.budget,
        )
        tenant = await self._use.tenants.get(wanted.tenant, budget=call.budget)
        return pb.CreateTenantResponse(tenant=_message(tenant), replayed=not is_new)

    @override
    async def UpdateTenant(
        self, request: pb.UpdateTenantRequest, context: Context
    ) -> pb.UpdateTenantResponse:
        call = call_of(context)
        wanted = read_change(request, call.principal.user, self._use.lifetimes)
        is_new = await self._use.tenants.update(
            wanted.tenant, wanted.change, wanted.request, budget=call.budget
        )
        tenant = await self._use.tenants.get(wanted.tenant, budget=call.budget)
        return pb.UpdateTenantResponse(tenant=_message(tenant), replayed=not is_new)

    @override
    async def GetTenant(self, request: pb.GetTenantRequest, context: Context) -> pb.GetTenantResponse:
        call = call_of(context)
        tenant = await self._use.tenants.get(read_tenant_id(request.tenant_id), budget=call.budget)
        return pb.GetTenantResponse(tenant=_message(tenant))

    @override
    async def ListTenants(self, request: pb.ListTenantsRequest, context: Context) -> pb.ListTenantsResponse:
        call = call_of(context)
        page = read_name_page(request, "ListTenants")
        found = await self._use.directory.page(after=page.start, size=page.size + 1, budget=call.budget)
        shown = found[: page.size]
        more = len(found) > page.size
        token = name_token("ListTenants", shown[-1].tenant_id) if more else ""
        return pb.ListTenantsResponse(tenants=map(_message, shown), next_page_token=token)

    @override
    async def FundTenant(self, request: pb.FundTenantRequest, context: Context) -> pb.FundTenantResponse:
        call = call_of(context)
        funding = read_funding(request, call.principal.user)
        is_new = await self._use.tenants.fund(
            funding.tenant,
            funding.amount,
            request_id=funding.request.request_id,
            actor=funding.request.actor,
            reason=funding.request.reason,
            budget=call.budget,
        )
        tenant = await self._use.tenants.get(funding.tenant, budget=call.budget)
        return pb.FundTenantResponse(tenant=_message(tenant), replayed=not is_new)


def _message(tenant: Tenant) -> pb.Tenant:
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
            request_rate=tenant.request_rate,
        ),
        queued_count=tenant.queued,
        running_count=tenant.running,
        create_time=timestamp_of(tenant.create_time),
        update_time=timestamp_of(tenant.update_time),
        retention=_retention_message(tenant.retention) if tenant.retention else None,
    )


def _retention_message(own: OwnLifetimes) -> pb.TenantRetention:
    return pb.TenantRetention(**{f"{kind}_duration": duration_of(seconds) for kind, seconds in own.items()})
