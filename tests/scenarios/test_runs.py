"""Jobs run by a real worker: calls whose outcome is unknown, and watchers that leave."""

from collections.abc import AsyncIterator

import pytest

from hourglass.jobs.v1 import job_pb2
from hourglass.jobs.v1 import jobs_service_pb2 as pb
from servicekit.wire_money import amount_of
from tests.jobs import TENANT, of
from tests.postgres import TestDatabase
from tests.scenarios.runs import Runs, running
from tests.waiting import eventually


@pytest.fixture
async def runs(database: TestDatabase, simulated: str) -> AsyncIterator[Runs]:
    """A worker behind a proxy to its provider."""
    async with running(database, simulated) as made:
        yield made


@pytest.mark.scenario("U1")
async def test_a_call_that_is_reset_after_it_was_sent_is_unknown_and_keeps_what_it_may_cost(
    runs: Runs,
) -> None:
    model = "simulated-stall-first"
    job_id = await runs.create(model, unknown_outcome_policy=job_pb2.UNKNOWN_OUTCOME_POLICY_FAIL)
    await eventually(lambda: runs.seen(model), within=15)
    runs.to_provider.sever()
    job = await runs.ended(job_id)
    (attempt,) = job.attempts
    assert job_pb2.ATTEMPT_OUTCOME_UNKNOWN == attempt.outcome
    assert job_pb2.ERROR_CLASS_UNKNOWN == attempt.error_class
    assert attempt.HasField("send_time")
    assert attempt.counted
    assert job_pb2.COST_BASIS_UNKNOWN == attempt.provider_cost.basis
    assert amount_of(attempt.provider_cost.unknown_worst_case_amount) > 0
    assert (job_pb2.JOB_STATE_FAILED, "UNKNOWN_OUTCOME") == (job.state, job.state_cause)


@pytest.mark.scenario("U1")
async def test_a_refused_connection_is_a_failure_that_was_not_sent_and_does_not_count(
    database: TestDatabase, simulated: str
) -> None:
    model = "simulated-fast:tokens=3"
    async with running(database, simulated) as runs:
        runs.to_provider.refuse()
        job_id = await runs.create(model, max_attempt_count=1)

        async def tried_twice() -> bool:
            return len((await runs.get(job_id)).attempts) >= 2

        await eventually(tried_twice, within=15)
        job = await runs.get(job_id)
        first = job.attempts[0]
        assert (job_pb2.ATTEMPT_OUTCOME_FAILED, "CONNECT_FAILED") == (first.outcome, first.cause)
        assert not first.counted
        assert 0 == amount_of(first.provider_cost.unknown_worst_case_amount)
        assert job.state not in {job_pb2.JOB_STATE_FAILED, job_pb2.JOB_STATE_SUCCEEDED}
        assert [] == await runs.seen(model)


@pytest.mark.scenario("U2")
async def test_each_call_on_the_wire_has_its_attempt_and_each_attempt_its_call(runs: Runs) -> None:
    """The provider fails with what SDKs like to retry by themselves: a 500, a 429 and a reset."""
    for model in ("simulated-500:tokens=2", "simulated-reset-before:tokens=2"):
        job_id = await runs.create(
            model, max_attempt_count=3, unknown_outcome_policy=job_pb2.UNKNOWN_OUTCOME_POLICY_RETRY
        )
        job = await runs.ended(job_id)
        seen = await runs.seen(model)
        assert (3, 3) == (len(job.attempts), len(seen))
        assert [1, 2, 3] == sorted(attempt.number for attempt in job.attempts)
        assert 3 == len({request["key"] for request in seen}), "every attempt has a key of its own"


@pytest.mark.scenario("X6")
async def test_a_watcher_that_leaves_cancels_nothing(runs: Runs) -> None:
    job_id = await runs.create("simulated:tokens=20,tps=20")
    request = pb.WatchJobRequest(job_id=job_id)
    for _ in range(3):
        stream = runs.jobs.jobs.WatchJob(request, metadata=of(TENANT))
        async for message in stream:
            if message.event.HasField("token_delta"):
                break
        stream.cancel()
    job = await runs.ended(job_id)
    assert job_pb2.JOB_STATE_SUCCEEDED == job.state
    assert not job.HasField("cancel_request_time")
    assert [job_pb2.ATTEMPT_OUTCOME_SUCCEEDED] == [attempt.outcome for attempt in job.attempts]
    assert ["finished"] == [call["state"] for call in await runs.seen("simulated:tokens=20,tps=20")]
