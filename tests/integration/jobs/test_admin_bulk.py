"""AdminService: bulk retry, resolve and cancel over a real socket."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID, uuid4

import grpc
import pytest
from grpc import StatusCode

from hourglass.jobs.v1 import admin_service_pb2 as pb
from hourglass.jobs.v1 import job_pb2
from hourglass.jobs.v1 import jobs_service_pb2 as jobs_pb
from jobs_store.endings import Finish, Verdict
from jobs_store.identifiers import JobId, TenantId
from jobs_store.runs import FIRST_FREE_EVENT, Claimed
from jobs_store.states import Cause, JobState
from servicekit.wire_time import timestamp_of
from tests.integration.jobs.bulk import (
    DEMO,
    asked,
    broken_invariants,
    database_dump,
    failed,
    held,
    outcomes,
    refusals,
    running,
    stream,
)
from tests.jobs import TENANT, Jobs, failure, of
from tests.store import (
    LANE,
    NOT_SENT,
    RESERVED,
    Store,
    acceptance_of,
    cancelled_end_of,
    decision_about,
    ending_of,
    failure_of,
    fence_of,
    open_store,
    price,
    time_enough,
)
from tests.waiting import eventually

pytestmark = pytest.mark.every_postgres

RETRY, RESOLVE, CANCEL = pb.BulkRetryJobsRequest, pb.BulkResolveJobsRequest, pb.BulkCancelJobsRequest
QUEUED, FAILED, CANCELLED = job_pb2.JOB_STATE_QUEUED, job_pb2.JOB_STATE_FAILED, job_pb2.JOB_STATE_CANCELLED
OTHER = TenantId("other")


@pytest.fixture
async def store(jobs: Jobs) -> AsyncIterator[Store]:
    """Somebody who runs jobs, as far as the store is concerned."""
    async with open_store(jobs.database) as opened:
        yield opened


async def leave_funds(jobs: Jobs, amount: Decimal) -> None:
    """Take out what is available but for this much."""
    await jobs.sql(
        "WITH taken AS (UPDATE hourglass.tenant_funds SET funded = funded - available + $2, available = $2"
        " WHERE tenant_id = $1 RETURNING funded)"
        " UPDATE hourglass.fundings f SET amount = t.funded FROM taken t WHERE f.tenant_id = $1",
        TENANT,
        amount,
    )


async def fail_again(store: Store) -> None:
    runs = await store.claim(10)
    await store.start(*runs)
    await store.runs.finish([failure_of(run) for run in runs], budget=time_enough())


def ids_of(told: list[pb.BulkJobOutcome]) -> list[JobId]:
    return [JobId(UUID(outcome.job_id)) for outcome in told]


@pytest.mark.faults
async def test_a_bulk_retry_of_250_failed_jobs_retries_those_that_have_funds(
    jobs: Jobs, store: Store
) -> None:
    made = await failed(store, 250)
    for job_id in made[10:15]:
        await store.decisions.erase(decision_about(job_id, tenant=DEMO), budget=time_enough())
    await leave_funds(jobs, 200 * RESERVED)
    told = await outcomes(jobs, asked(RETRY))
    assert made == ids_of(told)
    assert Counter({"": 200, "CONTENT_GONE": 5, "INSUFFICIENT_FUNDS": 45}) == Counter(refusals(told))
    assert {"CONTENT_GONE"} == set(refusals(told[10:15]))
    assert {(QUEUED, ""), (FAILED, "CONTENT_GONE"), (FAILED, "INSUFFICIENT_FUNDS")} == {
        (outcome.state, outcome.refused_reason) for outcome in told
    }
    assert 200 == await jobs.count("jobs WHERE state = 'QUEUED' AND state_cause = 'RETRIED'")
    assert {} == await broken_invariants(jobs)


async def test_a_dry_run_says_what_the_run_will_do_and_changes_nothing(jobs: Jobs, store: Store) -> None:
    made = await failed(store, 60)
    dear = await failed(store, 1, provider_cost_limit=Decimal(0))
    await store.decisions.erase(decision_about(made[3], tenant=DEMO), budget=time_enough())
    await leave_funds(jobs, 50 * RESERVED)
    before = await database_dump(jobs)
    foretold = await outcomes(jobs, asked(RETRY, dry_run=True))
    assert before == await database_dump(jobs)
    assert foretold == await outcomes(jobs, asked(RETRY))
    assert Counter({"": 50, "CONTENT_GONE": 1, "INSUFFICIENT_FUNDS": 9, "PROVIDER_COST_LIMIT": 1}) == Counter(
        refusals(foretold)
    )
    assert "PROVIDER_COST_LIMIT" == foretold[ids_of(foretold).index(dear[0])].refused_reason


@pytest.mark.parametrize("resolution", [jobs_pb.JOB_RESOLUTION_RETRY, jobs_pb.JOB_RESOLUTION_FAIL])
async def test_a_dry_run_of_a_resolution_says_what_the_run_will_do(
    jobs: Jobs, store: Store, resolution: jobs_pb.JobResolution.ValueType
) -> None:
    await held(store, 3)
    await held(store, 2, provider_cost_limit=Decimal("0.0015"))
    request = asked(RESOLVE, resolution=resolution)
    before = await database_dump(jobs)
    foretold = await outcomes(jobs, asked(RESOLVE, resolution=resolution, dry_run=True))
    assert before == await database_dump(jobs)
    told = await outcomes(jobs, request)
    assert foretold == told
    dear = 2 if resolution == jobs_pb.JOB_RESOLUTION_RETRY else 0
    assert (5, dear) == (len(told), refusals(told).count("PROVIDER_COST_LIMIT"))
    assert {} == await broken_invariants(jobs)


async def test_a_bulk_cancel_ends_what_waits_and_asks_what_runs(jobs: Jobs, store: Store) -> None:
    runs = await running(store, 3)
    on_hold = await held(store, 2)
    waiting = [await store.create(DEMO) for _ in range(4)]
    before = await database_dump(jobs)
    foretold = await outcomes(jobs, asked(CANCEL, dry_run=True))
    assert before == await database_dump(jobs)
    told = await outcomes(jobs, asked(CANCEL))
    assert foretold == told
    states = dict(zip(ids_of(told), [outcome.state for outcome in told], strict=True))
    ran = {run.job_id: job_pb2.JOB_STATE_RUNNING for run in runs}
    assert {**ran, **dict.fromkeys([*on_hold, *waiting], CANCELLED)} == states
    ended = await store.runs.finish([acceptance_of(run) for run in runs], budget=time_enough())
    assert {Verdict.CANCEL_REQUESTED} == {end.verdict for end in ended}
    rows = await jobs.sql("SELECT DISTINCT cancel_principal, cancel_reason FROM hourglass.jobs")
    assert [("olga", "an outage")] == [tuple(row) for row in rows]
    await store.runs.finish([cancelled_end_of(run) for run in runs], budget=time_enough())
    assert {} == await broken_invariants(jobs)


async def test_the_same_bulk_call_again_changes_nothing_more(jobs: Jobs, store: Store) -> None:
    await failed(store, 3)
    first = await outcomes(jobs, asked(RETRY))
    assert ["", "", ""] == refusals(first)
    await fail_again(store)
    await failed(store, 2)
    before = await database_dump(jobs)
    assert [] == await outcomes(jobs, asked(RETRY))
    assert before == await database_dump(jobs)
    assert 5 == len(await outcomes(jobs, asked(RETRY, request_id="b2")))


async def test_a_bulk_call_about_named_jobs_repeats_no_decision(jobs: Jobs, store: Store) -> None:
    made = await failed(store, 2)
    request = asked(RETRY, filter=pb.JobFilter(tenant_id=TENANT, job_ids=map(str, made)))
    await outcomes(jobs, request)
    await fail_again(store)
    before = await database_dump(jobs)
    again = await outcomes(jobs, request)
    assert [(FAILED, "", True)] * 2 == [
        (outcome.state, outcome.refused_reason, outcome.replayed) for outcome in again
    ]
    request.dry_run = True
    assert again == await outcomes(jobs, request)
    assert before == await database_dump(jobs)


async def test_the_same_bulk_cancel_again_leaves_alone_what_came_later(jobs: Jobs, store: Store) -> None:
    (back,) = await failed(store, 1)
    first = await store.create(DEMO)
    assert [first] == ids_of(await outcomes(jobs, asked(CANCEL)))
    await store.decisions.retry(decision_about(back, tenant=DEMO), budget=time_enough())
    await store.create(DEMO)
    assert [] == await outcomes(jobs, asked(CANCEL))
    assert 2 == await jobs.count("jobs WHERE state = 'QUEUED'")


async def test_the_same_resolution_again_leaves_alone_what_was_held_later(jobs: Jobs, store: Store) -> None:
    await held(store, 1)
    request = asked(RESOLVE, resolution=jobs_pb.JOB_RESOLUTION_RETRY)
    assert 1 == len(await outcomes(jobs, request))
    await held(store, 1)
    assert [] == await outcomes(jobs, request)


async def test_what_was_refused_is_tried_again_by_the_same_call(jobs: Jobs, store: Store) -> None:
    await failed(store, 4)
    await leave_funds(jobs, 3 * RESERVED)
    assert ["", "", "", "INSUFFICIENT_FUNDS"] == refusals(await outcomes(jobs, asked(RETRY)))
    await leave_funds(jobs, 3 * RESERVED)
    assert [""] == refusals(await outcomes(jobs, asked(RETRY)))


async def test_a_request_id_stands_for_one_bulk_call(jobs: Jobs, store: Store) -> None:
    await failed(store, 1)
    await outcomes(jobs, asked(RETRY))
    others = [
        asked(RETRY, filter=pb.JobFilter(lane=LANE)),
        asked(CANCEL),
        asked(RESOLVE, resolution=jobs_pb.JOB_RESOLUTION_FAIL),
    ]
    for other in others:
        for dry_run in (False, True):
            other.dry_run = dry_run
            refused = await failure(stream(jobs, other).read())
            assert (StatusCode.ALREADY_EXISTS, "REQUEST_ID_REUSED") == refused.kind


async def test_bulk_decisions_leave_one_audit_row_each_and_one_for_the_call(jobs: Jobs, store: Store) -> None:
    (job,) = await failed(store, 1)
    await outcomes(jobs, asked(RETRY))
    await outcomes(jobs, asked(CANCEL, request_id="b2"))
    rows = await jobs.sql(
        "SELECT tenant_id, action, actor, request_id, reason, subject FROM hourglass.audit_log"
        " WHERE actor = 'olga' ORDER BY id"
    )
    told = ("olga", "b1", "an outage"), ("olga", f"b1/{job}", "an outage")
    cancel = ("olga", "b2", "an outage"), ("olga", f"b2/{job}", "an outage")
    assert [
        ("*", "BULK_RETRY_JOBS", *told[0], "jobs"),
        (TENANT, "RETRY_JOB", *told[1], f"job:{job}"),
        ("*", "BULK_CANCEL_JOBS", *cancel[0], "jobs"),
        (TENANT, "CANCEL_JOB", *cancel[1], f"job:{job}"),
    ] == [tuple(row) for row in rows]


async def test_a_long_request_id_still_names_each_decision(jobs: Jobs, store: Store) -> None:
    await failed(store, 2)
    request = asked(RETRY, request_id="x" * 255)
    assert ["", ""] == refusals(await outcomes(jobs, request))
    assert 2 == await jobs.count("operator_requests WHERE action = 'RETRY_JOB'")


async def test_every_field_of_the_filter_counts(jobs: Jobs, store: Store) -> None:
    await jobs.fund(OTHER, Decimal(10))
    await store.runs.register_lanes(["other/lane"], budget=time_enough())
    (old,) = await failed(store, 1)
    (foreign,) = await failed(store, 1, OTHER)
    await store.create(DEMO, price=price(lane="other/lane"))
    (elsewhere,) = await store.claim(1, lanes=["other/lane"])
    await store.runs.finish([failure_of(elsewhere)], budget=time_enough())
    middle = timestamp_of(
        (await jobs.sql("SELECT create_time FROM hourglass.job_facts WHERE id = $1", foreign))[0][0]
    )
    for wanted, found in [
        (pb.JobFilter(tenant_id=OTHER), [foreign]),
        (pb.JobFilter(lane="other/lane"), [elsewhere.job_id]),
        (pb.JobFilter(state_cause="PERMANENT_ERROR"), [old, elsewhere.job_id, foreign]),
        (pb.JobFilter(state_cause="MAX_ATTEMPTS"), []),
        (pb.JobFilter(create_time_from=middle), [elsewhere.job_id, foreign]),
        (pb.JobFilter(create_time_before=middle), [old]),
        (pb.JobFilter(tenant_id=TENANT, lane=LANE, create_time_before=middle), [old]),
        (pb.JobFilter(tenant_id=OTHER, lane="other/lane"), []),
    ]:
        assert found == ids_of(await outcomes(jobs, asked(RETRY, filter=wanted, dry_run=True)))


async def test_named_jobs_are_all_answered_whatever_became_of_them(jobs: Jobs, store: Store) -> None:
    (bad,) = await failed(store, 1)
    waiting = await store.create(DEMO)
    nowhere = uuid4()
    named = [str(job_id) for job_id in (nowhere, waiting, bad, bad)]
    wanted = pb.JobFilter(tenant_id=TENANT, job_ids=named)
    for dry_run in (True, False):
        told = await outcomes(jobs, asked(RETRY, filter=wanted, dry_run=dry_run))
        assert {
            str(bad): (QUEUED, ""),
            str(waiting): (QUEUED, "JOB_NOT_FAILED"),
            str(nowhere): (job_pb2.JOB_STATE_UNSPECIFIED, "JOB_NOT_FOUND"),
        } == {outcome.job_id: (outcome.state, outcome.refused_reason) for outcome in told}
        assert [outcome.job_id for outcome in told] == sorted(set(named))
    left_out = pb.JobFilter(tenant_id=TENANT, job_ids=[str(waiting)], lane="other")
    told = await outcomes(jobs, asked(CANCEL, request_id="b2", filter=left_out))
    assert ["JOB_NOT_FOUND"] == refusals(told)


async def test_a_named_job_that_has_ended_cannot_be_cancelled(jobs: Jobs, store: Store) -> None:
    (job,) = await failed(store, 1)
    wanted = pb.JobFilter(tenant_id=TENANT, job_ids=[str(job)])
    for dry_run in (True, False):
        told = await outcomes(jobs, asked(CANCEL, filter=wanted, dry_run=dry_run))
        assert [(FAILED, "JOB_TERMINAL")] == [(one.state, one.refused_reason) for one in told]


async def test_every_wrong_field_of_a_bulk_call_is_named_at_once(jobs: Jobs) -> None:
    for kind in (RETRY, CANCEL):
        refused = await failure(stream(jobs, kind()).read())
        assert {"filter", "request_id", "reason"} == set(refused.violations)
    refused = await failure(stream(jobs, RESOLVE()).read())
    assert {"filter", "request_id", "reason", "resolution"} == set(refused.violations)
    now = datetime.now(UTC)
    wanted = pb.JobFilter(
        tenant_id="A",
        lane="a" * 256,
        state_cause="SOUP",
        create_time_from=timestamp_of(now),
        create_time_before=timestamp_of(now - timedelta(seconds=1)),
        job_ids=["x"] * 1001,
    )
    refused = await failure(stream(jobs, asked(RETRY, filter=wanted)).read())
    assert {
        "filter.tenant_id",
        "filter.lane",
        "filter.state_cause",
        "filter.create_time_before",
        "filter.job_ids",
        "filter.job_ids[0]",
    } <= set(refused.violations)
    alone = pb.JobFilter(job_ids=[str(uuid4())])
    assert {"filter.tenant_id"} == set(
        (await failure(stream(jobs, asked(RETRY, filter=alone)).read())).violations
    )
    nobody = asked(RETRY, filter=pb.JobFilter(tenant_id="nobody"))
    assert "TENANT_NOT_FOUND" == (await failure(stream(jobs, nobody).read())).reason


@pytest.mark.faults
async def test_a_caller_that_leaves_stops_the_call_and_the_same_call_goes_on(
    jobs: Jobs, store: Store
) -> None:
    made = await failed(store, 250)
    call = stream(jobs, asked(RETRY))
    first = await call.read()
    assert 50 == len(first.outcomes)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call.read()
    await eventually(lambda: jobs.app.databases.request.in_use == 0, within=10)
    decided = await jobs.count("operator_requests WHERE action = 'RETRY_JOB'")
    assert 50 <= decided < 250
    rest = await outcomes(jobs, asked(RETRY))
    assert made[decided:] == ids_of(rest)
    assert 250 == await jobs.count("audit_log WHERE action = 'RETRY_JOB'")
    assert {} == await broken_invariants(jobs)


async def test_bulk_and_single_decisions_at_once_settle_money_once(jobs: Jobs, store: Store) -> None:
    made = await failed(store, 30)

    async def retry(job_id: JobId) -> str:
        request = jobs_pb.RetryJobRequest(job_id=str(job_id), request_id=str(uuid4()), reason="mine")
        try:
            await jobs.jobs.RetryJob(request, metadata=of(TENANT), timeout=30)
        except grpc.aio.AioRpcError as error:
            assert "Only a FAILED job" in (error.details() or "")  # noqa: PT017 - not what is under test
            return "refused"
        return ""

    async def retry_all() -> list[str]:
        return [await retry(job_id) for job_id in reversed(made)]

    singles, bulks, twin = await asyncio.gather(
        retry_all(), outcomes(jobs, asked(RETRY)), outcomes(jobs, asked(RETRY, request_id="b2"))
    )
    done = singles.count("") + refusals(bulks).count("") + refusals(twin).count("")
    assert (30, 30) == (done, await jobs.count("jobs WHERE state = 'QUEUED'"))
    assert {"", "JOB_NOT_FAILED"} >= {*refusals(bulks), *refusals(twin)}
    assert {} == await broken_invariants(jobs)


async def work_on(store: Store, run: Claimed) -> None:
    """What a worker does, which learns of a cancel at each of its steps."""
    (started,) = await store.start(run)
    if started.verdict is Verdict.OK:
        (ended,) = await store.runs.finish([acceptance_of(run)], budget=time_enough())
        if ended.verdict is Verdict.OK:
            return
    end = cancelled_end_of(run) if started.verdict is Verdict.OK else not_sent(run)
    await store.runs.finish([end], budget=time_enough())


def not_sent(run: Claimed) -> Finish:
    """The end of a run whose job was cancelled before its start step."""
    ending = ending_of(run, JobState.CANCELLED, Cause.USER_CANCEL, NOT_SENT)
    return replace(ending, fence=fence_of(run, first_event=FIRST_FREE_EVENT))


async def test_a_bulk_cancel_while_workers_run_settles_every_job_once(jobs: Jobs, store: Store) -> None:
    for _ in range(60):
        await store.create(DEMO)

    async def work() -> None:
        while runs := await store.claim(3):
            for run in runs:
                await work_on(store, run)

    *_, told = await asyncio.gather(work(), work(), outcomes(jobs, asked(CANCEL)))
    assert set(refusals(told)) <= {"", "JOB_TERMINAL"}
    ends = await jobs.sql("SELECT state, count(*) FROM hourglass.finished_jobs GROUP BY state")
    assert 60 == sum(row["count"] for row in ends)
    assert {"SUCCEEDED", "CANCELLED"} >= {row["state"] for row in ends}
    assert {} == await broken_invariants(jobs)


async def test_a_bulk_cancel_tells_those_who_run_and_watch(jobs: Jobs, store: Store) -> None:
    waiting = await store.create(DEMO)
    request = jobs_pb.WaitJobRequest(job_id=str(waiting))
    waited = jobs.jobs.WaitJob(request, metadata=of(TENANT), timeout=30)
    await outcomes(jobs, asked(CANCEL))
    assert CANCELLED == (await waited).job.state
