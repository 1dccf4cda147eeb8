"""Money: set aside once, settled once, never below zero; funded = available + reserved + captured."""

import asyncio
from decimal import Decimal

import pytest

from jobs_store.endings import Verdict
from jobs_store.errors import AlreadySettled, FundsTooLow, InsufficientFunds, TenantNotFound
from jobs_store.identifiers import TenantId
from jobs_store.states import CostBasis, JobState
from tests.integration.store.locks import superuser
from tests.store import (
    CHARGE,
    OVER,
    RESERVED,
    TENANT,
    WORST_CASE,
    Store,
    acceptance_of,
    failure_of,
    return_of,
    time_enough,
    unknown,
)

pytestmark = pytest.mark.every_postgres

WRITTEN_BY_CREATE = (
    "jobs", "job_facts", "job_payloads", "reservations", "idempotency_keys", "job_events",
)  # fmt: skip


@pytest.mark.scenario("M1")
async def test_funds_for_three_jobs_make_exactly_three_of_fifty_creates(busy_store: Store) -> None:
    await busy_store.tenant(funds=3 * RESERVED + RESERVED / 2)
    outcomes = await asyncio.gather(*(busy_store.create() for _ in range(50)), return_exceptions=True)
    assert 47 == sum(isinstance(outcome, InsufficientFunds) for outcome in outcomes)
    async with superuser(busy_store) as connection:
        for table in WRITTEN_BY_CREATE:
            assert 3 == await connection.fetchval(f"SELECT count(*) FROM hourglass.{table}")
    tenant = await busy_store.tenants.get(TENANT, budget=time_enough())
    assert (RESERVED / 2, 3 * RESERVED, 3) == (tenant.available, tenant.reserved, tenant.queued)


async def test_a_tenant_without_funds_and_one_that_is_unknown_create_nothing(store: Store) -> None:
    await store.tenant(funds=Decimal(0))
    with pytest.raises(InsufficientFunds) as refused:
        await store.create()
    assert {"required": "0.01", "available": "0.000000000"} == refused.value.metadata
    with pytest.raises(TenantNotFound):
        await store.create(TenantId("nobody"))
    async with superuser(store) as connection:
        for table in WRITTEN_BY_CREATE:
            assert 0 == await connection.fetchval(f"SELECT count(*) FROM hourglass.{table}")


@pytest.mark.scenario("M3")
async def test_a_job_is_settled_once_whoever_ends_it_again(store: Store) -> None:
    await store.tenant()
    run = await store.running(lease=OVER)
    endings = await asyncio.gather(
        *(store.runs.finish([acceptance_of(run)], budget=time_enough()) for _ in range(5)),
        store.runs.finish([failure_of(run)], budget=time_enough()),
        return_exceptions=False,
    )
    verdicts = [ended[0].verdict for ended in endings]
    await store.reaper.reap(budget=time_enough())
    assert (1, 5) == (verdicts.count(Verdict.OK), verdicts.count(Verdict.LEASE_LOST))
    tenant = await store.tenants.get(TENANT, budget=time_enough())
    assert Decimal(0) == tenant.reserved
    assert tenant.captured == sum(ended[0].captured for ended in endings)


async def test_money_that_was_settled_without_ending_its_job_stops_the_ending(store: Store) -> None:
    await store.tenant()
    run = await store.running()
    async with superuser(store) as connection:
        await connection.execute(
            "UPDATE hourglass.reservations SET released = amount, settle_time = now(), settle_cause = 'X'"
        )
    with pytest.raises(AlreadySettled):
        await store.runs.finish([acceptance_of(run)], budget=time_enough())
    detail = await store.reader.get(TENANT, run.job_id, budget=time_enough())
    assert JobState.RUNNING == detail.job.state


async def test_one_ending_without_a_reservation_undoes_its_whole_batch(store: Store) -> None:
    await store.tenant()
    runs = [await store.running(key="a"), await store.running(key="b")]
    before = await store.tenants.get(TENANT, budget=time_enough())
    async with superuser(store) as connection:
        await connection.execute(
            "UPDATE hourglass.reservations SET released = amount, settle_time = now(), settle_cause = 'X' "
            "WHERE job_id = $1",
            runs[0].job_id,
        )
    with pytest.raises(AlreadySettled):
        await store.runs.finish([acceptance_of(run) for run in runs], budget=time_enough())
    assert before == await store.tenants.get(TENANT, budget=time_enough())
    async with superuser(store) as connection:
        assert 2 == await connection.fetchval("SELECT count(*) FROM hourglass.jobs")
        assert 0 == await connection.fetchval("SELECT count(*) FROM hourglass.finished_jobs")
        assert 0 == await connection.fetchval("SELECT count(*) FROM hourglass.job_results")


@pytest.mark.scenario("M5")
async def test_what_goes_beyond_the_reservation_is_the_operators(store: Store) -> None:
    await store.tenant(funds=RESERVED)
    run = await store.running()
    await store.runs.finish([acceptance_of(run, charge=RESERVED + Decimal("0.002"))], budget=time_enough())
    detail = await store.reader.get(TENANT, run.job_id, budget=time_enough(), with_attempts=True)
    assert [(RESERVED, Decimal(0), Decimal("0.002"))] == [
        (reserved.captured, reserved.released, reserved.overrun) for reserved in detail.reservations
    ]
    tenant = await store.tenants.get(TENANT, budget=time_enough())
    assert (Decimal(0), Decimal(0), RESERVED) == (tenant.available, tenant.reserved, tenant.captured)


@pytest.mark.scenario("M5")
async def test_a_failed_job_releases_all_and_keeps_what_its_attempts_cost(store: Store) -> None:
    await store.tenant()
    run = await store.running()
    await store.runs.requeue([return_of(run, end=unknown())], budget=time_enough())
    again = await store.claim_one()
    assert (Decimal(0), WORST_CASE) == (again.tally.known_cost, again.tally.unknown_cost)
    await store.start(again)
    await store.runs.finish([failure_of(again)], budget=time_enough())
    job = (await store.reader.get(TENANT, run.job_id, budget=time_enough())).job
    assert (JobState.FAILED, Decimal(0), Decimal(0)) == (job.state, job.captured, job.reserved)
    assert (CostBasis.UNKNOWN, WORST_CASE) == (job.cost.basis, job.cost.worst_case)


async def test_a_batch_settles_every_job_of_every_tenant(store: Store) -> None:
    tenants = [await store.tenant(TenantId(name)) for name in ("b", "a")]
    for tenant in tenants:
        await asyncio.gather(*(store.create(tenant) for _ in range(5)))
    runs = await store.claim(10)
    await store.start(*runs)
    endings = [acceptance_of(run) if index % 2 else failure_of(run) for index, run in enumerate(runs)]
    ended = await store.runs.finish(endings, budget=time_enough())
    assert [Verdict.OK] * 10 == [each.verdict for each in ended]
    assert [CHARGE if index % 2 else 0 for index in range(10)] == [each.captured for each in ended]
    captured = [(await store.tenants.get(tenant, budget=time_enough())).captured for tenant in tenants]
    assert 5 * CHARGE == sum(captured)


@pytest.mark.scenario("M10")
async def test_money_moves_in_once_a_request_id(store: Store) -> None:
    await store.tenant(funds=Decimal(0))

    async def fund(amount: str) -> bool:
        return await store.tenants.fund(
            TENANT, Decimal(amount), request_id="r", actor="ops", reason="", budget=time_enough()
        )

    moved = await asyncio.gather(*(fund("5") for _ in range(10)))
    assert 1 == sum(moved)
    tenant = await store.tenants.get(TENANT, budget=time_enough())
    assert (Decimal(5), Decimal(5)) == (tenant.funded, tenant.available)


async def test_no_more_goes_out_than_is_available(store: Store) -> None:
    await store.tenant(funds=Decimal(5))
    with pytest.raises(FundsTooLow):
        await store.tenants.fund(
            TENANT, Decimal(-6), request_id="out", actor="ops", reason="", budget=time_enough()
        )
    assert Decimal(5) == (await store.tenants.get(TENANT, budget=time_enough())).available
