"""A full JobService: what is refused, and what goes on all the same."""

from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import pytest
from grpc import StatusCode

from budget.core import Budget
from hourglass.jobs.v1 import admin_service_pb2 as admin_pb
from hourglass.jobs.v1 import jobs_service_pb2 as pb
from jobs_service.methods import methods
from servicekit.admission import AdmissionControl, Passage
from servicekit.methods import Admission
from tests.jobs import MODEL, TENANT, Jobs, failure, jobs_server, of, pricing_server
from tests.postgres import TestDatabase

LIMIT = 2


@pytest.fixture
async def jobs(database: TestDatabase) -> AsyncIterator[Jobs]:
    """JobService with room for two normal calls."""
    limits: dict[str, Any] = {"admission_minimum": LIMIT, "admission_maximum": LIMIT, "admission_waiting": 1}
    async with pricing_server() as pricing, jobs_server(database, pricing=pricing, **limits) as running:
        await running.fund(TENANT, Decimal(10))
        yield running


def fill(jobs: Jobs) -> list[Passage]:
    """Two calls that hold all there is."""
    control = jobs.app.server.admission
    assert isinstance(control, AdmissionControl)
    passages = [control.passage("/x/Y", Admission.NORMAL, Budget.for_work(60.0)) for _ in range(LIMIT)]
    for passage in passages:
        passage.arrive()
    return passages


@pytest.mark.scenario("B11")
async def test_a_replay_is_answered_while_the_server_is_full_and_a_new_job_is_not_made(jobs: Jobs) -> None:
    first = await jobs.create("k1")
    passages = fill(jobs)

    again = await jobs.create("k1")
    refused = await failure(jobs.create("k2"))

    assert (True, first.job.job_id) == (again.replayed, again.job.job_id)
    assert (StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED") == refused.kind
    assert "concurrency" == refused.metadata["refusal"]
    assert 1 == await jobs.count("job_facts")

    for passage in passages:
        passage.leave(None)
    assert not (await jobs.create("k2")).replayed


async def test_reads_and_quotes_are_refused_while_the_server_is_full_and_operators_are_not(
    jobs: Jobs,
) -> None:
    fill(jobs)

    quote = await failure(jobs.jobs.Quote(pb.QuoteRequest(models=[MODEL]), metadata=of(TENANT)))
    page = await failure(jobs.jobs.ListJobs(pb.ListJobsRequest(), metadata=of(TENANT)))
    tenant = await jobs.admin.GetTenant(admin_pb.GetTenantRequest(tenant_id=TENANT))

    assert ["OVERLOADED", "OVERLOADED"] == [quote.reason, page.reason]
    assert TENANT == tenant.tenant.tenant_id


async def test_watchers_have_a_count_of_their_own(jobs: Jobs) -> None:
    job_id = (await jobs.create("k1")).job.job_id
    fill(jobs)
    request = pb.WatchJobRequest(job_id=job_id)

    watch = jobs.jobs.WatchJob(request, metadata=of(TENANT))
    assert await watch.read()
    second = await failure(jobs.jobs.WatchJob(request, metadata=of(TENANT)).read())
    watch.cancel()

    assert ("OVERLOADED", "waiting_calls") == (second.reason, second.metadata["refusal"])


async def test_admission_can_be_turned_off(database: TestDatabase) -> None:
    async with (
        pricing_server() as pricing,
        jobs_server(database, pricing=pricing, admission=False) as running,
    ):
        assert running.app.server.admission is None


def test_every_method_meets_the_door_that_it_should() -> None:
    table = {name.rpartition("/")[2]: policy.admission for name, policy in methods(max_stream_age=60).items()}

    special = {
        "CreateJob": Admission.DEFERRED,
        "WaitJob": Admission.COUNT,
        "WatchJob": Admission.COUNT,
        "Generate": Admission.COUNT,
    }
    assert special.items() <= table.items()
    for name in ("Quote", "GetJob", "ListJobs", "CancelJob", "RetryJob", "ResolveJob", "EraseJobContent"):
        assert Admission.NORMAL is table[name]
    for name in ("GetTenant", "FundTenant", "Verify", "BulkCancelJobs", "PauseLane"):
        assert Admission.EXEMPT is table[name]
