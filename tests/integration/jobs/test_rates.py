"""A tenant's own request rate: operators set it, and every server follows."""

import math
from collections.abc import AsyncIterator
from decimal import Decimal

import grpc
import pytest
from grpc import StatusCode

from hourglass.jobs.v1 import admin_service_pb2 as pb
from hourglass.jobs.v1 import jobs_service_pb2 as jobs_pb
from tests.jobs import TENANT, Jobs, failure, jobs_server, of, pricing_server
from tests.postgres import TestDatabase
from tests.waiting import eventually

SLOW = 0.01


@pytest.fixture
async def jobs(database: TestDatabase) -> AsyncIterator[Jobs]:
    """JobService that reads changed rates soon."""
    async with (
        pricing_server() as pricing,
        jobs_server(database, pricing=pricing, rate_limit_burst=1.0, rate_limit_refresh=0.05) as running,
    ):
        await running.fund(TENANT, Decimal(10))
        yield running


async def set_rate(jobs: Jobs, rate: float, request_id: str) -> pb.Tenant:
    answer = await jobs.admin.UpdateTenant(
        pb.UpdateTenantRequest(
            tenant_id=TENANT,
            limits=pb.TenantLimits(request_rate=rate),
            request_id=request_id,
            reason="asked",
        )
    )
    tenant: pb.Tenant = answer.tenant
    return tenant


async def reason_of_a_read(jobs: Jobs, tenant: str = TENANT) -> str:
    """Empty when it was answered."""
    try:
        await jobs.jobs.ListJobs(jobs_pb.ListJobsRequest(), metadata=of(tenant))
    except grpc.aio.AioRpcError:
        return (await failure(jobs.jobs.ListJobs(jobs_pb.ListJobsRequest(), metadata=of(tenant)))).reason
    return ""


async def test_a_rate_counts_soon_after_it_is_set_and_no_longer_after_it_is_given_up(jobs: Jobs) -> None:
    assert "" == await reason_of_a_read(jobs)
    assert SLOW == (await set_rate(jobs, SLOW, "r1")).limits.request_rate

    async def refused() -> bool:
        return await reason_of_a_read(jobs) == "RATE_LIMITED"

    await eventually(refused, within=5.0)
    assert "" == await reason_of_a_read(jobs, "other")
    assert TENANT == (await jobs.admin.GetTenant(pb.GetTenantRequest(tenant_id=TENANT))).tenant.tenant_id

    assert not (await set_rate(jobs, 0, "r2")).limits.HasField("request_rate")

    async def let_through() -> bool:
        return await reason_of_a_read(jobs) == ""

    await eventually(let_through, within=5.0)


async def test_a_tenant_can_be_made_with_a_rate_and_is_the_same_again(jobs: Jobs) -> None:
    request = pb.CreateTenantRequest(
        tenant_id="acme", limits=pb.TenantLimits(request_rate=7.5), request_id="c1", reason="signed"
    )
    first = await jobs.admin.CreateTenant(request)
    again = await jobs.admin.CreateTenant(request)

    assert (7.5, True) == (first.tenant.limits.request_rate, again.replayed)
    request.limits.request_rate = 8.0
    assert (StatusCode.ALREADY_EXISTS, "REQUEST_ID_REUSED") == (
        await failure(jobs.admin.CreateTenant(request))
    ).kind


@pytest.mark.parametrize("rate", [-1.0, 1e9, 1e-9, math.nan, math.inf])
async def test_a_rate_that_is_none_is_refused(jobs: Jobs, rate: float) -> None:
    refused = await failure(set_rate(jobs, rate, "r1"))

    assert ["limits.request_rate"] == list(refused.violations)
