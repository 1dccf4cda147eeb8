"""RetryJob, ResolveJob, EraseJobContent: what operators and callers see of decisions about single jobs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest
from grpc import StatusCode

from hourglass.jobs.v1 import job_pb2
from hourglass.jobs.v1 import jobs_service_pb2 as pb
from jobs_store.endings import Finish
from jobs_store.runs import Claimed
from servicekit.wire_money import amount_of
from tests.jobs import TENANT, Jobs, failure, of, seconds
from tests.store import Store, acceptance_of, deltas_of, failure_of, hold_of, open_store, time_enough

pytestmark = pytest.mark.every_postgres


@asynccontextmanager
async def worker(jobs: Jobs) -> AsyncIterator[Store]:
    """Somebody who runs jobs, as far as the store is concerned."""
    async with open_store(jobs.database, pool=2) as store:
        yield store


async def claimed(store: Store, job: job_pb2.Job) -> Claimed:
    await store.runs.register_lanes([job.lane], budget=time_enough())
    (run,) = await store.claim(1, lanes=[job.lane])
    assert job.job_id == str(run.job_id)
    await store.start(run)
    return run


async def failed_job(jobs: Jobs, key: str = "k1", **spec: Any) -> str:
    job = (await jobs.create(key, **spec)).job
    async with worker(jobs) as store:
        await store.runs.finish([failure_of(await claimed(store, job))], budget=time_enough())
    return job.job_id


async def held_job(jobs: Jobs, key: str = "k1") -> str:
    job = (await jobs.create(key)).job
    async with worker(jobs) as store:
        await store.runs.requeue([hold_of(await claimed(store, job))], budget=time_enough())
    return job.job_id


async def succeeded_job(jobs: Jobs, key: str = "k1") -> str:
    job = (await jobs.create(key)).job
    async with worker(jobs) as store:
        run = await claimed(store, job)
        await store.runs.append([deltas_of(run, "Hello.")], budget=time_enough())
        ending = acceptance_of(run, charge=Decimal("0.000001"))
        await store.runs.finish([numbered(ending, 5)], budget=time_enough())
    return job.job_id


def numbered(ending: Finish, first_event: int) -> Finish:
    """An ending whose events begin at this number."""
    return replace(ending, fence=replace(ending.fence, first_event=first_event))


async def retry(jobs: Jobs, job_id: str, request_id: str = "") -> pb.RetryJobResponse:
    request = pb.RetryJobRequest(job_id=job_id, request_id=request_id or str(uuid4()), reason="again")
    answer: pb.RetryJobResponse = await jobs.jobs.RetryJob(request, metadata=of(TENANT, "olga"))
    return answer


async def resolve(
    jobs: Jobs, job_id: str, resolution: pb.JobResolution.ValueType, request_id: str = ""
) -> pb.ResolveJobResponse:
    request = pb.ResolveJobRequest(
        job_id=job_id, resolution=resolution, request_id=request_id or str(uuid4()), reason="enough"
    )
    answer: pb.ResolveJobResponse = await jobs.jobs.ResolveJob(request, metadata=of(TENANT, "olga"))
    return answer


async def erase(jobs: Jobs, job_id: str, request_id: str = "") -> pb.EraseJobContentResponse:
    request = pb.EraseJobContentRequest(job_id=job_id, request_id=request_id or str(uuid4()), reason="asked")
    answer: pb.EraseJobContentResponse = await jobs.jobs.EraseJobContent(request, metadata=of(TENANT, "olga"))
    return answer


async def watched(jobs: Jobs, job_id: str, after: int = 0) -> list[Any]:
    """The events of a whole stream."""
    request = pb.WatchJobRequest(job_id=job_id, after_sequence=after)
    return [
        message.event
        async for message in jobs.jobs.WatchJob(request, metadata=of(TENANT), timeout=10)
        if message.HasField("event")
    ]


async def replayed(jobs: Jobs, job_id: str) -> list[Any]:
    """The events so far."""
    request = pb.WatchJobRequest(job_id=job_id, replay_only=True)
    return [message.event async for message in jobs.jobs.WatchJob(request, metadata=of(TENANT), timeout=10)]


async def read(jobs: Jobs, job_id: str) -> job_pb2.Job:
    """The job as it is."""
    answer = await jobs.jobs.GetJob(pb.GetJobRequest(job_id=job_id), metadata=of(TENANT))
    job: job_pb2.Job = answer.job
    return job


async def test_a_failed_job_is_queued_again(jobs: Jobs) -> None:
    job_id = await failed_job(jobs)
    answer = await retry(jobs, job_id)
    assert (job_pb2.JOB_STATE_QUEUED, "RETRIED", 0, False) == (
        answer.job.state,
        answer.job.state_cause,
        answer.job.attempt_count,
        answer.replayed,
    )
    assert answer.job.charge.reserved_amount == answer.job.charge.quoted_amount


async def test_the_log_says_who_decided_and_why(jobs: Jobs) -> None:
    retried, held = await failed_job(jobs, "k1"), await held_job(jobs, "k2")
    await retry(jobs, retried)
    await resolve(jobs, held, pb.JOB_RESOLUTION_FAIL)
    for job_id, told in (
        (retried, ("RETRIED", "olga", "again")),
        (held, ("RESOLVED_FAIL", "olga", "enough")),
    ):
        last = (await replayed(jobs, job_id))[-1].state_changed
        assert [*told] == [last.cause, last.principal, last.reason]


async def test_a_state_that_ends_by_itself_says_when(jobs: Jobs) -> None:
    created = await jobs.create("k1", queue_timeout_duration=seconds(60))
    assert 60 == created.job.state_expire_time.seconds - created.job.ready_time.seconds
    async with worker(jobs) as store:
        run = await claimed(store, created.job)
        assert not (await read(jobs, created.job.job_id)).HasField("state_expire_time")
        await store.runs.requeue([hold_of(run)], budget=time_enough())
    held = await read(jobs, created.job.job_id)
    assert held.state_expire_time.seconds > held.update_time.seconds


async def test_the_same_request_again_answers_the_job_as_it_is_now(jobs: Jobs) -> None:
    job_id = await failed_job(jobs)
    await retry(jobs, job_id, "r1")
    await jobs.jobs.CancelJob(pb.CancelJobRequest(job_id=job_id), metadata=of(TENANT))
    again = await retry(jobs, job_id, "r1")
    assert (job_pb2.JOB_STATE_CANCELLED, True) == (again.job.state, again.replayed)


async def test_a_request_id_that_decided_something_else_is_refused(jobs: Jobs) -> None:
    job_id = await failed_job(jobs)
    await erase(jobs, job_id, "r1")
    refused = await failure(retry(jobs, job_id, "r1"))
    assert refused.kind == (StatusCode.ALREADY_EXISTS, "REQUEST_ID_REUSED")


@pytest.mark.scenario("M9")
async def test_a_retry_without_funds_changes_nothing(jobs: Jobs) -> None:
    job_id = await failed_job(jobs)
    before = (await jobs.jobs.GetJob(pb.GetJobRequest(job_id=job_id), metadata=of(TENANT))).job
    await jobs.sql(
        "UPDATE hourglass.tenant_funds SET funded = funded - available, available = 0 WHERE tenant_id = $1",
        TENANT,
    )
    refused = await failure(retry(jobs, job_id))
    assert refused.kind == (StatusCode.RESOURCE_EXHAUSTED, "INSUFFICIENT_FUNDS")
    assert "0.000000000" == refused.metadata["available"]
    after = (await jobs.jobs.GetJob(pb.GetJobRequest(job_id=job_id), metadata=of(TENANT))).job
    assert before == after


async def test_decisions_about_jobs_in_another_state_are_refused_with_the_state(jobs: Jobs) -> None:
    queued = (await jobs.create("k1")).job.job_id
    for call, reason in {
        retry(jobs, queued): "JOB_NOT_FAILED",
        resolve(jobs, queued, pb.JOB_RESOLUTION_FAIL): "JOB_NOT_HELD",
        erase(jobs, queued): "JOB_NOT_TERMINAL",
    }.items():
        refused = await failure(call)
        assert refused.kind == (StatusCode.FAILED_PRECONDITION, reason)
        assert refused.metadata["state"] == "QUEUED"


async def test_every_wrong_field_of_a_decision_is_named_at_once(jobs: Jobs) -> None:
    metadata = of(TENANT)
    fields: dict[str, Any] = {"job_id": "x", "request_id": "", "reason": "a" * 256}
    retried = await failure(jobs.jobs.RetryJob(pb.RetryJobRequest(**fields), metadata=metadata))
    erased = await failure(jobs.jobs.EraseJobContent(pb.EraseJobContentRequest(**fields), metadata=metadata))
    resolved = await failure(jobs.jobs.ResolveJob(pb.ResolveJobRequest(**fields), metadata=metadata))
    assert {"job_id", "request_id", "reason"} == set(retried.violations) == set(erased.violations)
    assert {"job_id", "request_id", "reason", "resolution"} == set(resolved.violations)


async def test_another_tenants_job_cannot_be_decided_about(jobs: Jobs) -> None:
    await jobs.fund("other", Decimal(1))
    job_id = await failed_job(jobs)
    for name, request in {
        "RetryJob": pb.RetryJobRequest,
        "EraseJobContent": pb.EraseJobContentRequest,
    }.items():
        method = getattr(jobs.jobs, name)
        asked = request(job_id=job_id, request_id="r", reason="r")
        refused = await failure(method(asked, metadata=of("other")))
        assert refused.kind == (StatusCode.NOT_FOUND, "JOB_NOT_FOUND")


async def test_a_held_job_runs_again_or_fails_as_an_operator_says(jobs: Jobs) -> None:
    sent_back = await resolve(jobs, await held_job(jobs, "k1"), pb.JOB_RESOLUTION_RETRY)
    assert (job_pb2.JOB_STATE_QUEUED, "RESOLVED_RETRY") == (sent_back.job.state, sent_back.job.state_cause)
    await jobs.jobs.CancelJob(pb.CancelJobRequest(job_id=sent_back.job.job_id), metadata=of(TENANT))
    given_up = await resolve(jobs, await held_job(jobs, "k2"), pb.JOB_RESOLUTION_FAIL)
    assert (job_pb2.JOB_STATE_FAILED, "RESOLVED_FAIL", Decimal(0)) == (
        given_up.job.state,
        given_up.job.state_cause,
        amount_of(given_up.job.charge.reserved_amount),
    )


async def test_the_actor_of_a_decision_is_the_principal(jobs: Jobs) -> None:
    job_id = await failed_job(jobs)
    await retry(jobs, job_id, "r1")
    rows = await jobs.sql("SELECT actor, reason FROM hourglass.audit_log WHERE request_id = 'r1'")
    assert [("olga", "again")] == [tuple(row) for row in rows]


async def test_erased_content_is_gone_wherever_one_looks(jobs: Jobs) -> None:
    job_id = await succeeded_job(jobs)
    asked = pb.GetJobRequest(job_id=job_id, include_content=True, include_attempts=True)
    before = (await jobs.jobs.GetJob(asked, metadata=of(TENANT))).job
    assert (True, True) == (before.HasField("spec"), before.HasField("result"))
    answer = await erase(jobs, job_id)
    assert answer.job.HasField("erase_time")
    after = (await jobs.jobs.GetJob(asked, metadata=of(TENANT))).job
    assert (False, False) == (after.HasField("spec"), after.HasField("result"))
    assert (before.charge, list(before.attempts)) == (after.charge, list(after.attempts))
    (listed,) = (await jobs.jobs.ListJobs(pb.ListJobsRequest(), metadata=of(TENANT))).jobs
    assert answer.job.erase_time == listed.erase_time == listed.update_time
    waited = await jobs.jobs.WaitJob(
        pb.WaitJobRequest(job_id=job_id, include_content=True), metadata=of(TENANT)
    )
    assert not waited.job.HasField("result")


@pytest.mark.scenario("W6")
async def test_a_watch_of_an_erased_job_ends_after_it_says_so(jobs: Jobs) -> None:
    job_id = await succeeded_job(jobs)
    before = await watched(jobs, job_id)
    await erase(jobs, job_id)
    after = await watched(jobs, job_id)
    assert [event for event in before if not event.HasField("token_delta")] == after[:-1]
    assert "olga" == after[-1].content_erased.principal
    assert before[-1].sequence == after[-1].last_durable_sequence
    assert after[-1:] == await watched(jobs, job_id, before[-1].sequence)
    assert [] == await watched(jobs, job_id, after[-1].sequence)


async def test_a_cursor_within_erased_deltas_goes_on_behind_them(jobs: Jobs) -> None:
    job_id = await succeeded_job(jobs)
    (delta,) = [event for event in await watched(jobs, job_id) if event.HasField("token_delta")]
    await erase(jobs, job_id)
    rest = await watched(jobs, job_id, delta.sequence)
    assert [True, False] == [rest[0].sequence > delta.sequence, rest[0].HasField("token_delta")]


async def test_an_erased_job_is_never_retried(jobs: Jobs) -> None:
    job_id = await failed_job(jobs)
    await erase(jobs, job_id)
    refused = await failure(retry(jobs, job_id))
    assert refused.kind == (StatusCode.FAILED_PRECONDITION, "CONTENT_GONE")


@pytest.mark.scenario("W6")
async def test_a_watch_goes_on_past_the_first_end_of_a_retried_job(jobs: Jobs) -> None:
    job_id = await failed_job(jobs)
    end = (await watched(jobs, job_id))[-1]
    await retry(jobs, job_id)
    await jobs.jobs.CancelJob(pb.CancelJobRequest(job_id=job_id), metadata=of(TENANT))
    events = await watched(jobs, job_id)
    assert [event for event in events if event.sequence > end.sequence] == await watched(
        jobs, job_id, end.sequence
    )
    changes = [event.state_changed for event in events if event.HasField("state_changed")]
    assert ["RETRIED", "USER_CANCEL"] == [change.cause for change in changes][-2:]
    assert events[-1].state_changed.terminal
    (first,) = [event for event in events if event.state_changed.cause == "RETRIED"]
    assert end.sequence == first.last_durable_sequence


async def test_the_cost_limit_bounds_what_operators_may_repeat(jobs: Jobs) -> None:
    job = (await jobs.create("k1", max_attempt_count=1)).job
    async with worker(jobs) as store:
        await store.runs.requeue([hold_of(await claimed(store, job))], budget=time_enough())
    refused = await failure(resolve(jobs, job.job_id, pb.JOB_RESOLUTION_RETRY))
    assert refused.kind == (StatusCode.FAILED_PRECONDITION, "PROVIDER_COST_LIMIT")
    assert job.job_id == refused.metadata["job_id"]
