"""Many jobs in one state, bulk calls about them, and all that a database holds."""

from collections.abc import Sequence
from typing import Any

import asyncpg

from hourglass.jobs.v1 import admin_service_pb2 as pb
from jobs_store.identifiers import JobId, TenantId
from jobs_store.runs import Claimed
from tests.integration.store.invariants import broken
from tests.jobs import TENANT, Jobs, of
from tests.store import Store, failure_of, hold_of, time_enough

DEMO = TenantId(TENANT)
PART = 50
METHODS = {
    pb.BulkRetryJobsRequest: "BulkRetryJobs",
    pb.BulkResolveJobsRequest: "BulkResolveJobs",
    pb.BulkCancelJobsRequest: "BulkCancelJobs",
}


async def running(store: Store, count: int, tenant: TenantId = DEMO, **changed: Any) -> list[Claimed]:
    """Jobs that run and were sent."""
    for _ in range(count):
        await store.create(tenant, **changed)
    runs = await store.claim(count)
    assert count == len(runs)
    await store.start(*runs)
    return runs


async def failed(store: Store, count: int, tenant: TenantId = DEMO, **changed: Any) -> list[JobId]:
    """Jobs that failed for good, by id; made in parts, because a tenant may not run all of them at once."""
    made: list[JobId] = []
    while len(made) < count:
        runs = await running(store, min(PART, count - len(made)), tenant, **changed)
        await store.runs.finish([failure_of(run) for run in runs], budget=time_enough())
        made += [run.job_id for run in runs]
    return sorted(made)


async def held(store: Store, count: int, **changed: Any) -> list[JobId]:
    """Jobs that are held, by id."""
    runs = await running(store, count, **changed)
    await store.runs.requeue([hold_of(run) for run in runs], budget=time_enough())
    return sorted(run.job_id for run in runs)


def asked(kind: Any, *, request_id: str = "b1", **fields: Any) -> Any:
    """A bulk request: about all jobs of the tenant `demo` unless `filter` says otherwise."""
    told = {"filter": pb.JobFilter(tenant_id=TENANT), "request_id": request_id, "reason": "an outage"}
    return kind(**{**told, **fields})


def stream(jobs: Jobs, request: Any) -> Any:
    """The call of a bulk request, as olga."""
    method = getattr(jobs.admin, METHODS[type(request)])
    return method(request, metadata=of("ops", "olga"), timeout=60)


async def outcomes(jobs: Jobs, request: Any) -> list[pb.BulkJobOutcome]:
    """All that a bulk call says."""
    return [outcome async for page in stream(jobs, request) for outcome in page.outcomes]


def refusals(told: Sequence[pb.BulkJobOutcome]) -> list[str]:
    """Why nothing was done, in order, empty where it was."""
    return [outcome.refused_reason for outcome in told]


async def database_dump(jobs: Jobs) -> dict[str, list[str]]:
    """Every row of every table of ours. Whose turn it is at retention moves by itself and is left out."""
    tables = await jobs.sql(
        "SELECT relname FROM pg_class WHERE relnamespace = 'hourglass'::regnamespace"
        " AND relkind IN ('r', 'p') AND NOT relispartition AND relname <> 'retention_turn'"
    )
    names = [table["relname"] for table in tables]
    return {
        name: [row[0] for row in await jobs.sql(f"SELECT t::text FROM hourglass.{name} t ORDER BY 1")]
        for name in names
    }


async def broken_invariants(jobs: Jobs) -> dict[str, list[str]]:
    """What does not hold."""
    connection = await asyncpg.connect(jobs.database.owner)
    try:
        return await broken(connection)
    finally:
        await connection.close()
