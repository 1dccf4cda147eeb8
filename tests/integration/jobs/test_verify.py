"""Verify over gRPC: pages of every invariant, for operators."""

import asyncio
from typing import Any

import asyncpg
from grpc import StatusCode

from hourglass.jobs.v1 import admin_service_pb2 as pb
from jobs_store.invariants.registry import INVARIANTS
from tests.jobs import TENANT, Jobs, failure, jobs_server, pricing_server
from tests.postgres import TestDatabase
from tests.waiting import eventually

AT_WORK = """
SELECT count(*) FROM pg_stat_activity
WHERE usename = 'hourglass_readonly' AND state <> 'idle' AND datname = current_database()
"""


async def pages_of(jobs: Jobs, **asked: Any) -> list[pb.VerifyResponse]:
    return [page async for page in jobs.admin.Verify(pb.VerifyRequest(**asked))]


async def test_every_invariant_of_a_running_service_is_verified(jobs: Jobs) -> None:
    await jobs.create("one")
    pages = await pages_of(jobs)
    assert list(INVARIANTS) == [page.invariant for page in pages]
    assert [] == [page for page in pages if page.violations or page.unchecked]
    assert 1 == sum(page.checked_count for page in pages if page.invariant == "JOB_IN_ONE_PLACE")


async def test_what_breaks_an_invariant_is_named(jobs: Jobs) -> None:
    created = await jobs.create("one")
    await jobs.sql("UPDATE hourglass.tenant_limits SET queued = 7")
    found = [violation for page in await pages_of(jobs) for violation in page.violations]
    assert [(TENANT, TENANT)] == [(each.tenant_id, each.subject) for each in found]
    assert "counts 0 running and 7 queued, and has 0 and 1" == found[0].description
    await jobs.sql("DELETE FROM hourglass.job_events")
    (page,) = await pages_of(jobs, invariants=["LOG_ENDS_WITH_ROW"], tenant_id=TENANT)
    assert [created.job.job_id] == [each.subject for each in page.violations]


async def test_a_tenant_is_verified_alone(jobs: Jobs) -> None:
    pages = await pages_of(jobs, tenant_id=TENANT)
    assert [name for name, each in INVARIANTS.items() if each.scope.of_tenants] == [
        page.invariant for page in pages
    ]


async def test_a_tenant_that_does_not_exist_is_not_found(jobs: Jobs) -> None:
    refused = await failure(anext(aiter(jobs.admin.Verify(pb.VerifyRequest(tenant_id="nobody")))))
    assert (StatusCode.NOT_FOUND, "TENANT_NOT_FOUND") == refused.kind


async def test_an_unknown_name_is_told_with_those_that_are_known(jobs: Jobs) -> None:
    asked = pb.VerifyRequest(invariants=["FUNDS_BALANCE", "NO_SUCH"], tenant_id="A")
    refused = await failure(anext(aiter(jobs.admin.Verify(asked))))
    assert (StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT") == refused.kind
    assert {"tenant_id", "invariants[1]", "invariants"} == set(refused.violations)


async def test_what_is_about_no_tenant_is_not_verified_for_one(jobs: Jobs) -> None:
    asked = pb.VerifyRequest(invariants=["LANE_COUNTS_ITS_RUNS"], tenant_id=TENANT)
    refused = await failure(anext(aiter(jobs.admin.Verify(asked))))
    assert {"invariants[0]"} == set(refused.violations)


async def test_a_service_without_a_read_only_connection_says_so(database: TestDatabase) -> None:
    async with (
        pricing_server() as pricing,
        jobs_server(database, pricing=pricing, readonly_database_url=None) as jobs,
    ):
        refused = await failure(anext(aiter(jobs.admin.Verify(pb.VerifyRequest()))))
    assert (StatusCode.FAILED_PRECONDITION, "VERIFY_NOT_CONFIGURED") == refused.kind


async def test_nothing_goes_on_for_a_caller_who_has_left(jobs: Jobs) -> None:
    async def at_work() -> int:
        return int((await jobs.sql(AT_WORK))[0][0])

    async def gone() -> bool:
        return await at_work() == 0

    blocking: asyncpg.Connection[asyncpg.Record] = await asyncpg.connect(jobs.database.owner)
    try:
        async with blocking.transaction():
            await blocking.execute("LOCK TABLE hourglass.job_events IN ACCESS EXCLUSIVE MODE")
            call = jobs.admin.Verify(pb.VerifyRequest(invariants=["LOG_HAS_NO_GAPS"]))
            reading = asyncio.ensure_future(anext(aiter(call)))
            await eventually(at_work)
            call.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            await eventually(gone)
    finally:
        await blocking.close()
