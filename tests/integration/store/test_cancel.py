"""CancelJob: what it answers is what happens, and what was delivered is paid for."""

import asyncio
from decimal import Decimal

import pytest

from jobs_store.cancellation import CancelOutcome
from jobs_store.decisions import charge_of_cancel
from jobs_store.endings import Verdict
from jobs_store.errors import JobNotFound
from jobs_store.events import EventKind
from jobs_store.identifiers import START, JobId, TenantId, new_job_id
from jobs_store.runs import FIRST_FREE_EVENT
from jobs_store.states import AttemptOutcome, Cause, JobState
from tests.store import (
    CARD,
    LEASE,
    NOT_SENT,
    OVER,
    RESERVED,
    TENANT,
    Store,
    acceptance_of,
    cancelled_end_of,
    deltas_of,
    ending_of,
    failure_of,
    hold_of,
    price,
    return_of,
    time_enough,
    token_of,
)

pytestmark = pytest.mark.every_postgres

DELIVERED = charge_of_cancel(CARD, input_estimate=price().input_token_estimate, delivered_tokens=2)


async def cancel(store: Store, job_id: JobId, tenant: TenantId = TENANT) -> CancelOutcome:
    return await store.cancellation.cancel(
        tenant, job_id, principal="ada", reason="changed my mind", budget=time_enough()
    )


async def require_cancelled(store: Store, job_id: JobId, *, captured: Decimal = Decimal(0)) -> None:
    job = (await store.reader.get(TENANT, job_id, budget=time_enough())).job
    assert (JobState.CANCELLED, Cause.USER_CANCEL) == (job.state, job.state_cause)
    assert (captured, Decimal(0)) == (job.captured, job.reserved)
    assert job.cancel_request_time is not None
    tenant = await store.tenants.get(TENANT, budget=time_enough())
    assert (0, 0, Decimal(0), captured) == (tenant.running, tenant.queued, tenant.reserved, tenant.captured)


async def test_a_queued_job_is_cancelled_at_once(store: Store) -> None:
    await store.tenant()
    job_id = await store.create()
    assert CancelOutcome.CANCELLED == await cancel(store, job_id)
    await require_cancelled(store, job_id)
    assert [] == await store.claim()


@pytest.mark.scenario("X4")
async def test_a_job_in_backoff_is_cancelled_at_once(store: Store) -> None:
    await store.tenant()
    run = await store.running()
    await store.runs.requeue([return_of(run, delay=60.0)], budget=time_enough())
    assert CancelOutcome.CANCELLED == await cancel(store, run.job_id)
    await require_cancelled(store, run.job_id)


@pytest.mark.scenario("X1")
async def test_a_cancel_before_the_start_step_keeps_the_provider_from_being_called(store: Store) -> None:
    await store.tenant()
    await store.create()
    run = await store.claim_one()
    assert CancelOutcome.CANCEL_REQUESTED == await cancel(store, run.job_id)
    (started,) = await store.start(run)
    assert (Verdict.CANCEL_REQUESTED, None) == (started.verdict, started.send_time)
    ending = ending_of(run, JobState.CANCELLED, Cause.USER_CANCEL, NOT_SENT)
    assert Verdict.OK == (await store.runs.finish([ending], budget=time_enough()))[0].verdict
    await require_cancelled(store, run.job_id)
    detail = await store.reader.get(TENANT, run.job_id, budget=time_enough(), with_attempts=True)
    assert [(AttemptOutcome.NOT_SENT, None)] == [
        (each.end.outcome, each.send_time) for each in detail.attempts
    ]


async def test_a_running_job_hears_of_the_cancel_wherever_it_writes(store: Store) -> None:
    await store.tenant()
    run = await store.running()
    await cancel(store, run.job_id)
    assert [Verdict.CANCEL_REQUESTED] == await store.runs.renew(
        [token_of(run)], lease=LEASE, budget=time_enough()
    )
    assert [Verdict.CANCEL_REQUESTED] == await store.runs.append([deltas_of(run, "a")], budget=time_enough())
    for ending in (acceptance_of(run), failure_of(run)):
        (ended,) = await store.runs.finish([ending], budget=time_enough())
        assert Verdict.CANCEL_REQUESTED == ended.verdict
    for back in (return_of(run), hold_of(run)):
        (ended,) = await store.runs.requeue([back], budget=time_enough())
        assert Verdict.CANCEL_REQUESTED == ended.verdict


@pytest.mark.scenario("X7")
async def test_a_result_that_is_complete_when_the_cancel_is_in_the_row_is_refused(store: Store) -> None:
    await store.tenant()
    run = await store.running()
    answered = await cancel(store, run.job_id)
    await store.runs.finish([acceptance_of(run)], budget=time_enough())
    (ended,) = await store.runs.finish([cancelled_end_of(run, charge=DELIVERED)], budget=time_enough())
    assert (CancelOutcome.CANCEL_REQUESTED, Verdict.OK) == (answered, ended.verdict)
    await require_cancelled(store, run.job_id, captured=DELIVERED)


@pytest.mark.scenario("X7")
async def test_cancel_and_acceptance_that_meet_agree_on_one_end(store: Store) -> None:
    await store.tenant()
    for _ in range(20):
        run = await store.running()
        answer, (ended,) = await asyncio.gather(
            cancel(store, run.job_id), store.runs.finish([acceptance_of(run)], budget=time_enough())
        )
        expected = {
            CancelOutcome.ALREADY_TERMINAL: Verdict.OK,
            CancelOutcome.CANCEL_REQUESTED: Verdict.CANCEL_REQUESTED,
        }
        assert expected[answer] == ended.verdict
        await store.runs.finish([cancelled_end_of(run)], budget=time_enough())


async def test_the_first_cancel_stands(store: Store) -> None:
    await store.tenant()
    run = await store.running()
    await cancel(store, run.job_id)
    first = (await store.reader.get(TENANT, run.job_id, budget=time_enough())).job.cancel_request_time
    await cancel(store, run.job_id)
    again = (await store.reader.get(TENANT, run.job_id, budget=time_enough())).job.cancel_request_time
    assert first == again


async def test_a_worker_that_dies_after_a_cancel_leaves_a_cancelled_job(store: Store) -> None:
    await store.tenant()
    run = await store.running(lease=OVER)
    await store.runs.append([deltas_of(run, "Hel", "lo")], budget=time_enough())
    await cancel(store, run.job_id)
    await store.reaper.reap(budget=time_enough())
    await require_cancelled(store, run.job_id, captured=DELIVERED)
    events = await store.reader.events(TENANT, run.job_id, after=START, limit=100, budget=time_enough())
    assert EventKind.CANCEL_REQUESTED in [event.kind for event in events]
    assert events[-1].ends_stream


async def test_a_held_job_is_cancelled_at_once_and_its_delivered_text_is_charged(store: Store) -> None:
    await store.tenant()
    run = await store.running()
    await store.runs.append([deltas_of(run, "Hel", "lo")], budget=time_enough())
    await store.runs.requeue([hold_of(run, first_event=FIRST_FREE_EVENT + 3)], budget=time_enough())
    assert CancelOutcome.CANCELLED == await cancel(store, run.job_id)
    await require_cancelled(store, run.job_id, captured=DELIVERED)
    (ended,) = await store.runs.finish([acceptance_of(run)], budget=time_enough())
    assert Verdict.LEASE_LOST == ended.verdict


async def test_a_cancel_never_charges_more_than_was_reserved(store: Store) -> None:
    await store.tenant()
    run = await store.running()
    await cancel(store, run.job_id)
    await store.runs.finish([cancelled_end_of(run, charge=10 * RESERVED)], budget=time_enough())
    await require_cancelled(store, run.job_id, captured=RESERVED)


async def test_a_job_of_another_tenant_is_not_there(store: Store) -> None:
    await store.tenant()
    job_id = await store.create()
    other = await store.tenant(TenantId("zeta"))
    for unknown in (job_id, new_job_id()):
        with pytest.raises(JobNotFound):
            await cancel(store, unknown, other)
