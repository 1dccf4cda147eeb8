"""HELD: the slot is free, the money waits, and only the attempt that caused it may still bring its result."""

import asyncio
from decimal import Decimal

import pytest

from jobs_store.endings import Due, Fence, Return, Verdict
from jobs_store.events import attempt_ended, state_changed
from jobs_store.identifiers import START
from jobs_store.runs import Claimed
from jobs_store.states import AttemptOutcome, Cause, CostBasis, ErrorClass, JobState, UnknownOutcomePolicy
from tests.integration.store.locks import superuser, until_waiting
from tests.store import (
    CHARGE,
    LEASE,
    OVER,
    RESERVED,
    TENANT,
    WORST_CASE,
    Store,
    acceptance_of,
    deltas_of,
    failed,
    failure_of,
    hold_of,
    release_of,
    return_of,
    time_enough,
    token_of,
    unknown,
)

pytestmark = pytest.mark.every_postgres


@pytest.mark.scenario("U3")
async def test_a_held_job_has_no_slot_and_keeps_its_reservation_and_token(store: Store) -> None:
    await store.tenant(max_running=1)
    run = await store.held()
    tenant = await store.tenants.get(TENANT, budget=time_enough())
    assert (0, 0, RESERVED) == (tenant.running, tenant.queued, tenant.reserved)
    assert [Verdict.HELD] == await store.runs.renew([token_of(run)], lease=LEASE, budget=time_enough())
    await store.create()
    assert 1 == len(await store.claim())


async def test_the_policy_hold_is_what_the_reaper_follows_too(store: Store) -> None:
    await store.tenant()
    run = await store.running(lease=OVER, unknown_outcome_policy=UnknownOutcomePolicy.HOLD)
    await store.reaper.reap(budget=time_enough())
    detail = await store.reader.get(TENANT, run.job_id, budget=time_enough(), with_attempts=True)
    assert (JobState.HELD, Cause.UNKNOWN_OUTCOME) == (detail.job.state, detail.job.state_cause)
    assert [AttemptOutcome.UNKNOWN] == [attempt.end.outcome for attempt in detail.attempts]


@pytest.mark.scenario("U5")
async def test_a_late_result_is_accepted_once(store: Store) -> None:
    await store.tenant()
    run = await store.held()
    verdicts = [
        ended[0].verdict
        for ended in await asyncio.gather(
            *(store.runs.finish([acceptance_of(run)], budget=time_enough()) for _ in range(4))
        )
    ]
    assert [Verdict.LEASE_LOST] * 3 + [Verdict.OK] == sorted(verdicts)
    await require_accepted(store, run)


async def require_accepted(store: Store, run: Claimed) -> None:
    detail = await store.reader.get(TENANT, run.job_id, budget=time_enough(), with_attempts=True)
    assert (JobState.SUCCEEDED, CHARGE) == (detail.job.state, detail.job.captured)
    (attempt,) = detail.attempts
    assert (AttemptOutcome.SUCCEEDED, CostBasis.REPORTED) == (attempt.end.outcome, attempt.end.cost.basis)
    assert run.claim_time == attempt.claim_time
    assert attempt.send_time is not None
    events = await store.reader.events(TENANT, run.job_id, after=START, limit=100, budget=time_enough())
    states = [
        (event.attributes["state"], event.attributes["cause"])
        for event in events
        if "state" in event.attributes
    ]
    assert [
        ("QUEUED", "CREATED"),
        ("RUNNING", "CLAIMED"),
        ("HELD", "UNKNOWN_OUTCOME"),
        ("RUNNING", "LATE_RESULT"),
        ("SUCCEEDED", "ACCEPTED"),
    ] == states


async def test_a_result_that_waited_while_the_reaper_held_the_job_is_accepted_whole(store: Store) -> None:
    await store.tenant()
    run = await store.running(lease=OVER)
    end = unknown()
    hold = Return(
        fence=Fence(tenant=TENANT, job_id=run.job_id, token=run.token, due=Due.LEASE, was_sent=True),
        state=JobState.HELD,
        cause=Cause.UNKNOWN_OUTCOME,
        delay=3600.0,
        events=(*attempt_ended(end), state_changed(JobState.HELD, Cause.UNKNOWN_OUTCOME)),
        attempt=end,
    )
    async with superuser(store) as watching:
        async with superuser(store) as third, third.transaction():
            await third.fetch("SELECT FROM hourglass.jobs FOR NO KEY UPDATE")
            holding = asyncio.ensure_future(store.runs.requeue([hold], budget=time_enough()))
            await until_waiting(watching)
            accepting = asyncio.ensure_future(store.runs.finish([acceptance_of(run)], budget=time_enough()))
            await until_waiting(watching, count=2)
        assert [Verdict.OK, Verdict.OK] == [(await holding)[0].verdict, (await accepting)[0].verdict]
    await require_accepted(store, run)


async def test_a_run_writes_no_events_while_its_job_is_held(store: Store) -> None:
    await store.tenant()
    run = await store.held()
    before = await store.reader.position(TENANT, run.job_id, budget=time_enough())
    late = deltas_of(run, "late", first_event=50)
    assert [Verdict.HELD] == await store.runs.append([late], budget=time_enough())
    assert before == await store.reader.position(TENANT, run.job_id, budget=time_enough())
    events = await store.reader.events(TENANT, run.job_id, after=START, limit=100, budget=time_enough())
    assert before.last_sequence == events[-1].sequence


async def test_a_held_job_lets_in_no_run_but_the_one_that_caused_it(store: Store) -> None:
    await store.tenant()
    zombie = await store.running(lease=OVER)
    await store.reaper.reap(budget=time_enough())
    latest = await store.claim_one()
    await store.start(latest)
    await store.runs.requeue([hold_of(latest)], budget=time_enough())
    assert [Verdict.LEASE_LOST] == await store.runs.append([deltas_of(zombie, "x")], budget=time_enough())
    renewed = await store.runs.renew([token_of(zombie)], lease=LEASE, budget=time_enough())
    assert [Verdict.LEASE_LOST] == renewed
    for endings in (
        await store.runs.finish([acceptance_of(zombie)], budget=time_enough()),
        await store.runs.requeue([return_of(zombie)], budget=time_enough()),
    ):
        assert [Verdict.LEASE_LOST] == [ended.verdict for ended in endings]


async def test_a_late_failure_ends_the_job(store: Store) -> None:
    await store.tenant()
    run = await store.held()
    (ended,) = await store.runs.finish([failure_of(run)], budget=time_enough())
    assert Verdict.OK == ended.verdict
    job = (await store.reader.get(TENANT, run.job_id, budget=time_enough())).job
    assert (JobState.FAILED, Decimal(0), Decimal(0)) == (job.state, job.captured, job.reserved)


async def test_a_late_transient_failure_sends_the_job_back_and_mends_what_it_was_thought_to_cost(
    store: Store,
) -> None:
    await store.tenant()
    first = await store.running()
    await store.runs.requeue([return_of(first, end=unknown())], budget=time_enough())
    second = await store.claim_one()
    await store.start(second)
    await store.runs.requeue([hold_of(second)], budget=time_enough())
    (ended,) = await store.runs.requeue([return_of(second)], budget=time_enough())
    assert Verdict.OK == ended.verdict
    third = await store.claim_one()
    assert (2, WORST_CASE) == (third.tally.counted_attempts, third.tally.unknown_cost)
    detail = await store.reader.get(TENANT, first.job_id, budget=time_enough(), with_attempts=True)
    assert [AttemptOutcome.UNKNOWN, AttemptOutcome.FAILED] == [each.end.outcome for each in detail.attempts]
    assert [None, ErrorClass.TRANSIENT] == [
        None if each.end.outcome is AttemptOutcome.UNKNOWN else each.end.error_class
        for each in detail.attempts
    ]
    assert failed().cost.amount == detail.job.cost.amount


async def test_an_outcome_that_is_still_unknown_changes_nothing(store: Store) -> None:
    await store.tenant()
    run = await store.held()
    before = await store.reader.get(TENANT, run.job_id, budget=time_enough(), with_attempts=True)
    (ended,) = await store.runs.requeue([hold_of(run)], budget=time_enough())
    assert Verdict.HELD == ended.verdict
    assert before == await store.reader.get(TENANT, run.job_id, budget=time_enough(), with_attempts=True)


@pytest.mark.scenario("U3", "U5")
async def test_a_hold_that_nobody_ends_fails_the_job_and_refuses_what_comes_after(store: Store) -> None:
    await store.tenant()
    run = await store.running()
    await store.runs.requeue([hold_of(run, timeout=0.0)], budget=time_enough())
    assert 1 == (await store.reaper.reap(budget=time_enough())).hold_ended
    job = (await store.reader.get(TENANT, run.job_id, budget=time_enough())).job
    assert (JobState.FAILED, Cause.HOLD_TIMEOUT, Decimal(0)) == (job.state, job.state_cause, job.reserved)
    (ended,) = await store.runs.finish([acceptance_of(run)], budget=time_enough())
    assert Verdict.LEASE_LOST == ended.verdict


async def test_a_hold_in_time_is_left_alone(store: Store) -> None:
    await store.tenant()
    await store.held()
    assert 0 == (await store.reaper.reap(budget=time_enough())).hold_ended


async def test_a_run_that_never_sent_may_say_so_late(store: Store) -> None:
    await store.tenant()
    run = await store.held()
    (ended,) = await store.runs.requeue([release_of(run)], budget=time_enough())
    assert Verdict.OK == ended.verdict
    detail = await store.reader.get(TENANT, run.job_id, budget=time_enough(), with_attempts=True)
    assert [(AttemptOutcome.NOT_SENT, None)] == [
        (each.end.outcome, each.send_time) for each in detail.attempts
    ]
    assert (JobState.QUEUED, 0, None) == (detail.job.state, detail.job.attempt_count, detail.job.cost.basis)
