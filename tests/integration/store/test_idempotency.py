"""One idempotency key, one job, whatever races and however the first one ends."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest

from budget.postgres import Transaction
from jobs_store.creation import KeyTaken
from jobs_store.identifiers import TenantId
from jobs_store.statements import statement
from jobs_store.stored_json import dump
from tests.integration.store.locks import superuser, until_waiting
from tests.store import BUSY_POOL, RESERVED, TENANT, Store, decision_about, new_job, policy_of, time_enough

pytestmark = pytest.mark.every_postgres

OTHER = TenantId("zeta")
ONE = "one key"


class RollBack(Exception):
    """The first create fails."""


@asynccontextmanager
async def until_rolled_back(store: Store) -> AsyncIterator[Transaction]:
    """A caller's transaction that is rolled back at the end of the block."""
    policy = policy_of("create_job")
    with suppress(RollBack):
        async with store.request.transaction(time_enough(), policy, tenants=[TENANT]) as transaction:
            yield transaction
            raise RollBack


async def create_fifty(store: Store) -> list[BaseException | None]:
    outcomes = await asyncio.gather(*(store.create(key=ONE) for _ in range(50)), return_exceptions=True)
    return [outcome if isinstance(outcome, BaseException) else None for outcome in outcomes]


async def require_one_job(store: Store) -> None:
    async with superuser(store) as connection:
        for table in ("jobs", "job_facts", "job_payloads", "reservations", "idempotency_keys", "job_events"):
            assert 1 == await connection.fetchval(f"SELECT count(*) FROM hourglass.{table}")
        assert RESERVED == await connection.fetchval("SELECT reserved FROM hourglass.tenant_funds")
        job_id = await connection.fetchval("SELECT id FROM hourglass.jobs")
    digest = new_job(key=ONE).key.digest
    known = await store.creation.find_key(TENANT, digest, budget=time_enough())
    assert known is not None
    assert job_id == known.job_id


@pytest.mark.scenario("I1")
async def test_fifty_creates_with_one_key_make_one_job(busy_store: Store) -> None:
    await busy_store.tenant()
    outcomes = await create_fifty(busy_store)
    assert 1 == outcomes.count(None)
    assert 49 == sum(isinstance(outcome, KeyTaken) for outcome in outcomes)
    await require_one_job(busy_store)


@pytest.mark.scenario("I1")
async def test_fifty_creates_make_one_job_when_the_first_one_rolls_back_while_they_wait(
    busy_store: Store,
) -> None:
    await busy_store.tenant()
    async with superuser(busy_store) as watching, until_rolled_back(busy_store) as transaction:
        await transaction.fetchrow(statement("create_job"), dump(new_job(key=ONE).to_json()))
        creating = asyncio.ensure_future(create_fifty(busy_store))
        await until_waiting(watching, count=BUSY_POOL - 1)
    outcomes = await creating
    assert 1 == outcomes.count(None)
    assert 49 == sum(isinstance(outcome, KeyTaken) for outcome in outcomes)
    await require_one_job(busy_store)


@pytest.mark.scenario("I2")
async def test_a_key_is_taken_again_when_its_lifetime_is_over_and_the_payload_has_gone(store: Store) -> None:
    await store.tenant()
    job = new_job(key=ONE)
    await store.creation.create(replace(job, key=replace(job.key, lifetime=0.0)), budget=time_enough())
    with pytest.raises(KeyTaken):
        await store.create(key=ONE)
    await store.cancellation.cancel(TENANT, job.job_id, principal="a", reason="", budget=time_enough())
    await store.decisions.erase(decision_about(job.job_id), budget=time_enough())
    assert await store.creation.find_key(TENANT, job.key.digest, budget=time_enough()) is None
    await store.create(key=ONE)
    with pytest.raises(KeyTaken):
        await store.create(key=ONE)


@pytest.mark.scenario("I2")
async def test_a_key_is_kept_for_its_lifetime_also_when_the_payload_has_gone_before(store: Store) -> None:
    await store.tenant()
    job_id = await store.create(key=ONE)
    await store.cancellation.cancel(TENANT, job_id, principal="a", reason="", budget=time_enough())
    await store.decisions.erase(decision_about(job_id), budget=time_enough())
    with pytest.raises(KeyTaken):
        await store.create(key=ONE)
    known = await store.creation.find_key(TENANT, new_job(key=ONE).key.digest, budget=time_enough())
    assert known is not None
    assert job_id == known.job_id


@pytest.mark.scenario("I4")
async def test_two_tenants_may_use_the_same_key(store: Store) -> None:
    for tenant in (TENANT, OTHER):
        await store.tenant(tenant)
        await store.create(tenant, key=ONE)
