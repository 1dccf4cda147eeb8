"""How a worker ends: what was not sent goes back, what was sent gets its grace."""

from __future__ import annotations

import gc
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration

from hourglass.worker.v1 import worker_service_pb2 as pb
from hourglass.worker.v1 import worker_service_pb2_grpc as pb_grpc
from jobs_store.identifiers import TenantId
from jobs_store.states import AttemptOutcome, JobState, UnknownOutcomePolicy
from tests.integration.worker.workers import attempts, outcomes
from tests.store import WORST_CASE
from tests.waiting import eventually

if TYPE_CHECKING:
    from tests.integration.worker.workers import Bench

START_WAITS_AT_THE_GATE = """
CREATE FUNCTION hourglass.wait_at_the_gate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(42);
    RETURN NEW;
END $$;
CREATE TRIGGER start_waits BEFORE UPDATE ON hourglass.jobs FOR EACH ROW
    WHEN (OLD.send_time IS NULL AND NEW.send_time IS NOT NULL) EXECUTE FUNCTION hourglass.wait_at_the_gate();
"""


@pytest.mark.scenario("S1", "S2")
async def test_a_run_that_was_not_sent_goes_back_to_the_queue_at_once(bench: Bench) -> None:
    """Uncharged, uncounted, and the provider never hears of it; the start step was already under way."""
    await bench.administer(START_WAITS_AT_THE_GATE)
    job = await bench.job("simulated-fast", max_attempts=1)
    calls = len(bench.all_seen())
    async with bench.gate() as gate, bench.detached(drain_grace=20.0) as detached:
        await eventually(gate.waiting)
        detached.stopping.set()
        await eventually(lambda: detached.worker.draining)
        await gate.open()
        await detached.task
    detail = await bench.get(job)
    assert (JobState.QUEUED, "RELEASED", ["NOT_SENT"]) == (
        detail.job.state,
        detail.job.state_cause,
        outcomes(detail),
    )
    assert 0 == detail.job.attempt_count
    assert calls == len(bench.all_seen())
    assert detail.job.ready_time - attempts(detail)[0].end_time < timedelta(seconds=0.001)


@pytest.mark.scenario("S1")
async def test_a_call_may_end_within_the_grace(bench: Bench) -> None:
    """Nothing new is claimed meanwhile."""
    job = await bench.job("simulated:tokens=10,tps=10")
    async with bench.detached(drain_grace=15.0) as detached:
        await bench.sent(job)
        detached.stopping.set()
        await eventually(lambda: detached.worker.draining)
        late = await bench.job("simulated-fast")
        await detached.task
    assert JobState.SUCCEEDED is (await bench.get(job)).job.state
    assert JobState.QUEUED is (await bench.get(late)).job.state


@pytest.mark.scenario("S1")
async def test_a_call_beyond_the_grace_is_closed_and_unknown(bench: Bench) -> None:
    """It follows its policy, and keeps what it may have cost; nothing is left RUNNING."""
    held = await bench.job("simulated-drip", unknown_outcome_policy=UnknownOutcomePolicy.HOLD)
    again = await bench.job("simulated-drip", unknown_outcome_policy=UnknownOutcomePolicy.RETRY)
    async with bench.detached(drain_grace=0.3) as detached:
        keys = [await bench.sent(held), await bench.sent(again)]
        detached.stopping.set()
        await detached.task
    for job, state in ((held, JobState.HELD), (again, JobState.QUEUED)):
        detail = await bench.get(job)
        (attempt,) = attempts(detail)
        assert (state, AttemptOutcome.UNKNOWN, "SHUTDOWN", WORST_CASE) == (
            detail.job.state,
            attempt.end.outcome,
            attempt.end.cause,
            attempt.end.cost.worst_case,
        )
    seen = [await bench.seen(key) for key in keys]
    assert ["closed_by_client"] * 2 == [call["state"] for call in seen if call]


async def test_a_drain_call_ends_the_worker_like_a_signal(bench: Bench) -> None:
    """With a grace of the caller's, never longer than its own."""
    job = await bench.job("simulated-drip", unknown_outcome_policy=UnknownOutcomePolicy.FAIL)
    async with bench.detached(drain_grace=30.0) as detached:
        await bench.sent(job)
        async with grpc.aio.insecure_channel(
            detached.worker.address, options=[("grpc.use_local_subchannel_pool", 1)]
        ) as channel:
            stub = pb_grpc.WorkerServiceStub(channel)
            request = pb.DrainRequest(grace_duration=Duration(nanos=200_000_000))
            answer = await stub.Drain(request, timeout=5.0)
        await detached.task
    assert 1 == answer.running_count
    detail = await bench.get(job)
    assert (JobState.FAILED, "UNKNOWN_OUTCOME") == (detail.job.state, detail.job.state_cause)
    assert (Decimal(0), Decimal(0)) == await bench.funds()


@pytest.mark.faults
@pytest.mark.scenario("S4")
async def test_collecting_garbage_kills_no_run(bench: Bench) -> None:
    """200 runs that wait for their provider are all owned by somebody."""
    big = await bench.store.tenant(TenantId("big"), max_running=200)
    jobs = [await bench.job("simulated:tokens=2,first=4,tps=0", big) for _ in range(200)]
    async with bench.worker(slots=200) as worker:
        await eventually(lambda: worker.free_slots == 0, within=10.0)
        for _ in range(3):
            gc.collect()
        states = {(await bench.ends(job, big, within=30.0)).job.state for job in jobs}
    assert {JobState.SUCCEEDED} == states
