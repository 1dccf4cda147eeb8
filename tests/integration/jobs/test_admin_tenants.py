"""AdminService: tenants changed and listed, and their own lifetimes."""

from decimal import Decimal
from typing import Any

import pytest
from grpc import StatusCode

from hourglass.jobs.v1 import admin_service_pb2 as pb
from tests.jobs import TENANT, Jobs, failure, jobs_server, of, pricing_server, seconds
from tests.postgres import TestDatabase

pytestmark = pytest.mark.every_postgres

DAY = 86_400
NOTHING = Decimal(0)
WEEKS = pb.TenantRetention(payload_duration=seconds(DAY), result_duration=seconds(14 * DAY))


def change(**fields: Any) -> pb.UpdateTenantRequest:
    return pb.UpdateTenantRequest(**{"tenant_id": TENANT, "request_id": "u1", "reason": "asked", **fields})


async def update(jobs: Jobs, **fields: Any) -> pb.UpdateTenantResponse:
    answer: pb.UpdateTenantResponse = await jobs.admin.UpdateTenant(
        change(**fields), metadata=of("ops", "olga")
    )
    return answer


async def listed(jobs: Jobs, size: int) -> list[list[str]]:
    """The ids of all tenants, page by page."""
    pages: list[list[str]] = []
    token = ""
    while not pages or token:
        answer = await jobs.admin.ListTenants(pb.ListTenantsRequest(page_size=size, page_token=token))
        pages.append([tenant.tenant_id for tenant in answer.tenants])
        token = answer.next_page_token
    return pages


async def test_only_what_is_present_changes(jobs: Jobs) -> None:
    before = (await jobs.admin.GetTenant(pb.GetTenantRequest(tenant_id=TENANT))).tenant
    after = (await update(jobs, limits=pb.TenantLimits(weight=5))).tenant
    assert before.update_time.ToNanoseconds() < after.update_time.ToNanoseconds()
    before.limits.weight = 5
    before.update_time.CopyFrom(after.update_time)
    assert before == after
    renamed = (await update(jobs, request_id="u2", display_name="The demo")).tenant
    assert ("The demo", 5) == (renamed.display_name, renamed.limits.weight)


async def test_a_change_happens_once_a_request_and_is_audited(jobs: Jobs) -> None:
    first = await update(jobs, limits=pb.TenantLimits(max_queued_count=0))
    await update(jobs, request_id="u2", limits=pb.TenantLimits(max_queued_count=7))
    again = await update(jobs, limits=pb.TenantLimits(max_queued_count=0))
    assert [False, True] == [first.replayed, again.replayed]
    assert 7 == again.tenant.limits.max_queued_count
    rows = await jobs.sql(
        "SELECT actor, request_id, reason, subject, details::text FROM hourglass.audit_log"
        " WHERE action = 'UPDATE_TENANT' ORDER BY id LIMIT 1"
    )
    assert [("olga", "u1", "asked", "tenant:demo", '{"max_queued": 0}')] == [tuple(row) for row in rows]
    assert 2 == len(await jobs.sql("SELECT FROM hourglass.audit_log WHERE action = 'UPDATE_TENANT'"))


async def test_a_request_id_changes_one_thing(jobs: Jobs) -> None:
    await update(jobs, limits=pb.TenantLimits(weight=2))
    refused = await failure(update(jobs, limits=pb.TenantLimits(weight=3)))
    assert (StatusCode.ALREADY_EXISTS, "REQUEST_ID_REUSED") == refused.kind
    assert 2 == (await update(jobs, limits=pb.TenantLimits(weight=2))).tenant.limits.weight


async def test_a_tenant_that_does_not_exist_is_not_changed(jobs: Jobs) -> None:
    asked = {"tenant_id": "nobody", "limits": pb.TenantLimits(weight=2)}
    assert (StatusCode.NOT_FOUND, "TENANT_NOT_FOUND") == (await failure(update(jobs, **asked))).kind
    await jobs.fund("nobody", NOTHING)
    assert not (await update(jobs, **asked)).replayed


async def test_a_limit_holds_from_its_commit_on(jobs: Jobs) -> None:
    await jobs.create("k1")
    await update(jobs, limits=pb.TenantLimits(max_queued_count=1))
    refused = await failure(jobs.create("k2"))
    assert (StatusCode.RESOURCE_EXHAUSTED, "QUEUE_FULL") == refused.kind
    assert 1 == (await jobs.admin.GetTenant(pb.GetTenantRequest(tenant_id=TENANT))).tenant.queued_count


async def test_a_tenant_may_have_lifetimes_of_its_own(jobs: Jobs) -> None:
    own = (await update(jobs, retention=WEEKS)).tenant.retention
    assert WEEKS == own
    row = (await jobs.sql("SELECT retention::text FROM hourglass.tenants WHERE tenant_id = $1", TENANT))[0]
    assert '{"result": 1209600.0, "payload": 86400.0}' == row[0]
    assert WEEKS == (await update(jobs, request_id="u2", display_name="Demo")).tenant.retention
    other = pb.TenantRetention(audit_duration=seconds(0))
    assert other == (await update(jobs, request_id="u3", retention=other)).tenant.retention
    back = (await update(jobs, request_id="u4", retention=pb.TenantRetention())).tenant
    assert not back.HasField("retention")


async def test_a_tenant_can_be_made_with_lifetimes(jobs: Jobs) -> None:
    request = pb.CreateTenantRequest(tenant_id="acme", request_id="r", reason="new", retention=WEEKS)
    made = [await jobs.admin.CreateTenant(request) for _ in range(2)]
    assert [(False, WEEKS), (True, WEEKS)] == [(one.replayed, one.tenant.retention) for one in made]
    request.ClearField("retention")
    assert "REQUEST_ID_REUSED" == (await failure(jobs.admin.CreateTenant(request))).reason


async def test_lifetimes_that_contradict_the_services_are_refused_by_name(jobs: Jobs) -> None:
    impossible = pb.TenantRetention(
        payload_duration=seconds(10 * DAY), jobs_duration=seconds(DAY), audit_duration=seconds(-1)
    )
    refused = await failure(update(jobs, retention=impossible))
    assert {"retention.events_duration", "retention.jobs_duration", "retention.audit_duration"} == set(
        refused.violations
    )
    assert "must be at least payload" == refused.violations["retention.events_duration"]
    too_long = pb.TenantRetention(quotes_duration=seconds(21 * 365 * DAY))
    refused = await failure(update(jobs, retention=too_long))
    assert {"retention.quotes_duration"} == set(refused.violations)


async def test_every_wrong_field_of_a_change_is_named_at_once(jobs: Jobs) -> None:
    refused = await failure(jobs.admin.UpdateTenant(pb.UpdateTenantRequest(tenant_id="A")))
    assert {"tenant_id", "request_id", "reason", "limits"} == set(refused.violations)
    limits = pb.TenantLimits(max_running_count=-1, max_queued_count=-1, weight=1001)
    refused = await failure(update(jobs, limits=limits, display_name=""))
    assert {
        "display_name",
        "limits.max_running_count",
        "limits.max_queued_count",
        "limits.weight",
    } == set(refused.violations)


async def test_tenants_are_listed_by_id_each_once(jobs: Jobs) -> None:
    for tenant in ("b", "a-1", "a", "c"):
        await jobs.fund(tenant, NOTHING)
    whole = await listed(jobs, 100)
    assert {"a", "a-1", "b", "c", TENANT} == set(whole[0])
    assert [whole[0][:2], whole[0][2:4], whole[0][4:]] == await listed(jobs, 2)


async def test_a_token_is_good_for_its_own_list_only(jobs: Jobs) -> None:
    await jobs.fund("acme", NOTHING)
    token = (await jobs.admin.ListTenants(pb.ListTenantsRequest(page_size=1))).next_page_token
    for call in (
        jobs.admin.ListTenants(pb.ListTenantsRequest(page_token=token[:-2])),
        jobs.admin.ListTenants(pb.ListTenantsRequest(page_token="acme")),
        jobs.admin.ListLanes(pb.ListLanesRequest(page_token=token)),
        jobs.admin.ListWorkers(pb.ListWorkersRequest(page_token=token)),
    ):
        assert {"page_token"} == set((await failure(call)).violations)
    refused = await failure(jobs.admin.ListTenants(pb.ListTenantsRequest(page_size=-1, page_token="?")))
    assert {"page_size", "page_token"} == set(refused.violations)


async def test_a_server_without_the_overview_says_what_it_lacks(database: TestDatabase) -> None:
    async with (
        pricing_server() as pricing,
        jobs_server(database, pricing=pricing, worker_database_url=None) as jobs,
    ):
        for call in (
            jobs.admin.ListTenants(pb.ListTenantsRequest()),
            jobs.admin.PauseLane(pb.PauseLaneRequest(lane="l", request_id="r", reason="r")),
        ):
            refused = await failure(call)
            assert (StatusCode.FAILED_PRECONDITION, "OVERVIEW_NOT_CONFIGURED") == refused.kind
