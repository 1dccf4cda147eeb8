"""Operators decide about single jobs: once a request_id, with an audit row, all of it or nothing."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from decimal import Decimal

import pytest

from jobs_store.endings import Verdict
from jobs_store.errors import (
    CostLimitReached,
    InsufficientFunds,
    JobNotFailed,
    JobNotFound,
    JobNotHeld,
    QueueFull,
    RequestIdReused,
    StoreError,
)
from jobs_store.identifiers import JobId, new_job_id
from jobs_store.states import Cause, JobState
from tests.integration.store.decisions import (
    Act,
    erase,
    failed_job,
    finished_job,
    held_job,
    job_of,
    let_fail,
    position_of,
    require_invariants,
    require_refused,
    retry,
    send_back,
)
from tests.integration.store.locks import superuser
from tests.store import (
    CHARGE,
    RESERVED,
    TENANT,
    WORST_CASE,
    Store,
    acceptance_of,
    decision_about,
    failure_of,
    hold_of,
    return_of,
    time_enough,
    unknown,
)

pytestmark = pytest.mark.every_postgres


@pytest.mark.scenario("M9", "L8")
async def test_a_failed_job_runs_again_and_its_second_reservation_is_settled_once(store: Store) -> None:
    await store.tenant()
    run = await store.failed()
    assert await retry(store, decision_about(run.job_id))
    again = await store.claim_one()
    assert (run.attempt_number + 1, 0, 0) == (
        again.attempt_number,
        again.tally.counted_attempts,
        again.tally.crash_count,
    )
    assert run.token != again.token
    await store.start(again)
    endings = [acceptance_of(again), acceptance_of(again)]
    ended = [(await store.runs.finish([ending], budget=time_enough()))[0].verdict for ending in endings]
    assert [Verdict.OK, Verdict.LEASE_LOST] == ended
    detail = await job_of(store, run.job_id)
    assert [(1, RESERVED, Decimal(0), RESERVED), (2, RESERVED, CHARGE, RESERVED - CHARGE)] == [
        (held.number, held.amount, held.captured, held.released) for held in detail.reservations
    ]
    assert CHARGE == detail.job.captured
    await require_invariants(store)


async def test_a_job_may_fail_and_be_retried_again_and_again(store: Store) -> None:
    await store.tenant()
    run = await store.failed(max_attempts=1)
    for number in range(2, 5):
        await retry(store, decision_about(run.job_id))
        again = await store.claim_one()
        assert (number, 0) == (again.attempt_number, again.tally.counted_attempts)
        await store.start(again)
        await store.runs.finish([failure_of(again)], budget=time_enough())
    assert [1, 2, 3, 4] == [held.number for held in (await job_of(store, run.job_id)).reservations]
    await require_invariants(store)


async def test_the_queue_time_of_a_retried_job_starts_afresh(store: Store) -> None:
    await store.tenant()
    run = await store.failed(queue_timeout=3600.0)
    async with superuser(store) as connection:
        await connection.execute(
            "UPDATE hourglass.finished_jobs SET ready_time = ready_time - interval '1 day'"
        )
        await retry(store, decision_about(run.job_id))
        left = await connection.fetchval("SELECT queue_deadline - clock_timestamp() FROM hourglass.jobs")
    assert 3590 < left.total_seconds() <= 3600
    assert 0 == (await store.reaper.reap(budget=time_enough())).expired


@pytest.mark.scenario("M9")
async def test_without_funds_a_failed_job_stays_as_it_is(store: Store) -> None:
    await store.tenant(funds=RESERVED)
    run = await store.failed()
    await store.create()
    refused = await require_refused(store, retry, decision_about(run.job_id), InsufficientFunds)
    assert (RESERVED, Decimal(0)) == (
        Decimal(refused.metadata["required"]),
        Decimal(refused.metadata["available"]),
    )
    assert JobState.FAILED == (await position_of(store, run.job_id)).state


async def test_funds_for_one_retry_are_spent_once_whoever_asks(store: Store) -> None:
    await store.tenant(funds=2 * RESERVED)
    runs = [await store.failed() for _ in range(2)]
    await store.create()
    outcomes = await asyncio.gather(
        *(retry(store, decision_about(run.job_id)) for run in runs for _ in range(3)), return_exceptions=True
    )
    assert 1 == outcomes.count(True)
    assert all(outcome is True or isinstance(outcome, StoreError) for outcome in outcomes)
    await require_invariants(store)


async def test_a_full_queue_takes_no_retried_job(store: Store) -> None:
    await store.tenant(max_queued=1)
    run = await store.failed()
    await store.create()
    await require_refused(store, retry, decision_about(run.job_id), QueueFull)


async def test_the_cost_limit_goes_on_over_retries(store: Store) -> None:
    await store.tenant()
    run = await store.running(provider_cost_limit=2 * WORST_CASE)
    await store.runs.requeue([return_of(run, end=unknown())], budget=time_enough())
    second = await store.claim_one()
    await store.start(second)
    await store.runs.finish([failure_of(second)], budget=time_enough())
    await retry(store, decision_about(run.job_id))
    third = await store.claim_one()
    assert WORST_CASE == third.tally.unknown_cost
    await store.start(third)
    failure = replace(failure_of(third), attempt=unknown())
    await store.runs.finish([failure], budget=time_enough())
    await require_refused(store, retry, decision_about(run.job_id), CostLimitReached)


async def test_only_a_failed_job_can_be_retried(store: Store) -> None:
    await store.tenant()
    others = {
        JobState.SUCCEEDED: (await store.succeeded()).job_id,
        JobState.HELD: (await store.held()).job_id,
        JobState.RUNNING: (await store.running()).job_id,
        JobState.QUEUED: await store.create(),
        JobState.CANCELLED: await store.create(),
    }
    await store.cancellation.cancel(
        TENANT, others[JobState.CANCELLED], principal="ada", reason="", budget=time_enough()
    )
    for state, job_id in others.items():
        refused = await require_refused(store, retry, decision_about(job_id), JobNotFailed)
        assert state == refused.metadata["state"]


@pytest.mark.parametrize("act", [retry, send_back, let_fail, erase])
async def test_a_job_that_never_was_cannot_be_decided_about(store: Store, act: Act) -> None:
    await store.tenant()
    await require_refused(store, act, decision_about(new_job_id()), JobNotFound)


@pytest.mark.scenario("U3", "U5", "L8")
async def test_a_held_job_that_is_sent_back_runs_again_and_refuses_the_late_result(store: Store) -> None:
    await store.tenant()
    run = await store.held()
    assert await send_back(store, decision_about(run.job_id))
    again = await store.claim_one()
    assert (run.attempt_number + 1, True) == (again.attempt_number, run.token != again.token)
    (late,) = await store.runs.finish([acceptance_of(run)], budget=time_enough())
    assert Verdict.LEASE_LOST == late.verdict
    detail = await job_of(store, run.job_id)
    assert (JobState.RUNNING, RESERVED, 1) == (
        detail.job.state,
        detail.job.reserved,
        len(detail.reservations),
    )
    await require_invariants(store)


@pytest.mark.scenario("U3", "U5")
async def test_a_held_job_that_is_given_up_releases_its_money_and_refuses_the_late_result(
    store: Store,
) -> None:
    await store.tenant()
    run = await store.held()
    assert await let_fail(store, decision_about(run.job_id))
    (late,) = await store.runs.finish([acceptance_of(run)], budget=time_enough())
    assert Verdict.LEASE_LOST == late.verdict
    job = (await job_of(store, run.job_id)).job
    assert (JobState.FAILED, Cause.RESOLVED_FAIL, Decimal(0), Decimal(0)) == (
        job.state,
        job.state_cause,
        job.reserved,
        job.captured,
    )
    assert await retry(store, decision_about(run.job_id))
    await require_invariants(store)


async def test_a_job_that_is_sent_back_waits_its_whole_queue_time_again(store: Store) -> None:
    await store.tenant()
    run = await store.held(queue_timeout=3600.0)
    async with superuser(store) as connection:
        await connection.execute(
            "UPDATE hourglass.jobs SET queue_start_time = queue_start_time - interval '2 hours', "
            "queue_deadline = queue_deadline - interval '2 hours'"
        )
    await send_back(store, decision_about(run.job_id))
    assert 0 == (await store.reaper.reap(budget=time_enough())).expired
    assert JobState.QUEUED == (await position_of(store, run.job_id)).state


@pytest.mark.scenario("U3")
async def test_another_attempt_that_could_cost_too_much_is_refused(store: Store) -> None:
    await store.tenant()
    run = await store.held(provider_cost_limit=WORST_CASE)
    await require_refused(store, send_back, decision_about(run.job_id), CostLimitReached)
    assert await let_fail(store, decision_about(run.job_id))


@pytest.mark.parametrize("act", [send_back, let_fail])
async def test_only_a_held_job_can_be_resolved(store: Store, act: Act) -> None:
    await store.tenant()
    for job_id in (
        (await store.failed()).job_id,
        (await store.running()).job_id,
        await store.create(),
    ):
        await require_refused(store, act, decision_about(job_id), JobNotHeld)


async def test_of_a_late_result_and_a_decision_one_wins(store: Store) -> None:
    await store.tenant()
    runs = [await store.held() for _ in range(6)]
    for run in runs:
        decided, ended = await asyncio.gather(
            let_fail(store, decision_about(run.job_id)),
            store.runs.finish([acceptance_of(run)], budget=time_enough()),
            return_exceptions=True,
        )
        accepted = not isinstance(ended, BaseException) and ended[0].verdict is Verdict.OK
        assert accepted is isinstance(decided, JobNotHeld)
    await require_invariants(store)


SCENES = [
    pytest.param(retry, failed_job, id="retry"),
    pytest.param(send_back, held_job, id="send back"),
    pytest.param(let_fail, held_job, id="let fail"),
    pytest.param(erase, finished_job, id="erase"),
]


@pytest.mark.parametrize(("act", "job"), SCENES)
async def test_a_request_id_decides_once_however_often_and_at_once_it_comes(
    store: Store, act: Act, job: Callable[[Store], Awaitable[JobId]]
) -> None:
    await store.tenant()
    decision = decision_about(await job(store), request_id="one")
    answers = await asyncio.gather(*(act(store, decision) for _ in range(6)))
    assert [False] * 5 + [True] == sorted(answers)
    async with superuser(store) as connection:
        rows = await connection.fetch(
            "SELECT actor, request_id, reason, subject FROM hourglass.audit_log WHERE request_id = 'one'"
        )
    assert [("ops", "one", decision.reason, f"job:{decision.job_id}")] == [tuple(row) for row in rows]
    await require_invariants(store)


@pytest.mark.parametrize(("act", "job"), SCENES)
async def test_a_request_id_that_decided_something_else_is_refused(
    store: Store, act: Act, job: Callable[[Store], Awaitable[JobId]]
) -> None:
    await store.tenant()
    await erase(store, decision_about(await finished_job(store), request_id="one"))
    other = decision_about(await job(store), request_id="one")
    await require_refused(store, act, other, RequestIdReused)


async def test_the_other_resolution_is_another_decision(store: Store) -> None:
    await store.tenant()
    run = await store.held()
    decision = decision_about(run.job_id, request_id="one")
    await send_back(store, decision)
    await require_refused(store, let_fail, decision, RequestIdReused)


async def test_a_refused_decision_may_be_made_later_under_its_request_id(store: Store) -> None:
    await store.tenant()
    run = await store.running()
    decision = decision_about(run.job_id, request_id="one")
    await require_refused(store, retry, decision, JobNotFailed)
    await store.runs.finish([failure_of(run)], budget=time_enough())
    assert await retry(store, decision)


async def test_a_hold_that_began_after_a_retry_keeps_what_was_spent_before(store: Store) -> None:
    await store.tenant()
    run = await store.failed()
    await retry(store, decision_about(run.job_id))
    again = await store.claim_one()
    await store.start(again)
    await store.runs.requeue([hold_of(again)], budget=time_enough())
    (late,) = await store.runs.finish([acceptance_of(again)], budget=time_enough())
    assert Verdict.OK == late.verdict
    assert (JobState.SUCCEEDED, CHARGE, 1) == (
        (job := (await job_of(store, run.job_id)).job).state,
        job.captured,
        job.attempt_count,
    )
    await require_invariants(store)
