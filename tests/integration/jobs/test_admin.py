"""AdminService: tenants, made and funded once a request."""

from decimal import Decimal
from typing import Any

import pytest
from grpc import StatusCode

from hourglass.jobs.v1 import admin_service_pb2 as pb
from servicekit.wire_money import amount_of, money_of
from tests.jobs import Jobs, failure, of

pytestmark = pytest.mark.every_postgres


def creation(**fields: Any) -> pb.CreateTenantRequest:
    return pb.CreateTenantRequest(**{"tenant_id": "acme", "request_id": "r1", "reason": "new", **fields})


def funding(amount: str, **fields: Any) -> pb.FundTenantRequest:
    told = {"tenant_id": "acme", "request_id": "f1", "reason": "paid", "amount": money_of(Decimal(amount))}
    return pb.FundTenantRequest(**{**told, **fields})


async def test_a_tenant_is_made_once_a_request(jobs: Jobs) -> None:
    request = creation(limits=pb.TenantLimits(max_running_count=7))
    first = await jobs.admin.CreateTenant(request, metadata=of("ops", "olga"))
    again = await jobs.admin.CreateTenant(request, metadata=of("ops", "olga"))
    assert (first.replayed, again.replayed) == (False, True)
    assert first.tenant == again.tenant
    assert (first.tenant.display_name, first.tenant.limits.max_running_count) == ("acme", 7)
    assert first.tenant.limits.weight == 1
    rows = await jobs.sql(
        "SELECT actor, request_id, reason FROM hourglass.audit_log WHERE action = 'CREATE_TENANT'"
        " AND tenant_id = 'acme'"
    )
    assert [tuple(row) for row in rows] == [("olga", "r1", "new")]


async def test_a_tenant_that_exists_is_not_made_again(jobs: Jobs) -> None:
    await jobs.admin.CreateTenant(creation())
    refused = await failure(jobs.admin.CreateTenant(creation(request_id="r2")))
    assert refused.kind == (StatusCode.ALREADY_EXISTS, "TENANT_EXISTS")


async def test_a_request_id_means_one_request(jobs: Jobs) -> None:
    await jobs.admin.CreateTenant(creation())
    refused = await failure(jobs.admin.CreateTenant(creation(display_name="Another")))
    assert refused.reason == "REQUEST_ID_REUSED"
    await jobs.admin.FundTenant(funding("1"))
    assert (await failure(jobs.admin.FundTenant(funding("2")))).reason == "REQUEST_ID_REUSED"


@pytest.mark.scenario("M10")
async def test_money_comes_in_and_goes_out_once_a_request(jobs: Jobs) -> None:
    await jobs.admin.CreateTenant(creation())
    answers = [await jobs.admin.FundTenant(funding("5")) for _ in range(2)]
    assert [answer.replayed for answer in answers] == [False, True]
    taken = await jobs.admin.FundTenant(funding("-2", request_id="f2"))
    assert amount_of(taken.tenant.funds.funded_amount) == Decimal(3)
    refused = await failure(jobs.admin.FundTenant(funding("-4", request_id="f3")))
    assert refused.kind == (StatusCode.FAILED_PRECONDITION, "FUNDS_TOO_LOW")


async def test_a_tenant_that_does_not_exist_is_not_found(jobs: Jobs) -> None:
    for call in (
        jobs.admin.GetTenant(pb.GetTenantRequest(tenant_id="nobody")),
        jobs.admin.FundTenant(funding("1", tenant_id="nobody")),
    ):
        assert (await failure(call)).kind == (StatusCode.NOT_FOUND, "TENANT_NOT_FOUND")


async def test_everything_that_is_wrong_is_told_at_once(jobs: Jobs) -> None:
    limits = pb.TenantLimits(max_running_count=-1, max_queued_count=-1, weight=0)
    refused = await failure(jobs.admin.CreateTenant(pb.CreateTenantRequest(tenant_id="A", limits=limits)))
    assert set(refused.violations) == {
        "tenant_id",
        "request_id",
        "reason",
        "limits.max_running_count",
        "limits.max_queued_count",
        "limits.weight",
    }
    refused = await failure(jobs.admin.FundTenant(funding("0", tenant_id="")))
    assert set(refused.violations) == {"tenant_id", "amount"}
