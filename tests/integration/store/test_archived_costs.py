"""What the operator paid outlives the rows that said so, by tenant and lane."""

from collections.abc import Sequence
from decimal import Decimal

import asyncpg
import pytest

from jobs_store.attempts import NO_USAGE, ProviderCost
from jobs_store.calls import CallEnd, CallStore, NewCall, Settlement
from jobs_store.identifiers import new_call_id
from jobs_store.lifetimes import DAY, Lifetimes
from jobs_store.retention import Retention, RetentionTerms
from jobs_store.states import AttemptOutcome, Cause
from tests.integration.store.locks import superuser
from tests.store import (
    CHARGE,
    LANE,
    TENANT,
    WORST_CASE,
    Store,
    acceptance_of,
    policy_of,
    return_of,
    time_enough,
    unknown,
)

pytestmark = pytest.mark.every_postgres

OVER_THE_RESERVATION = Decimal(5)
NOW = Lifetimes(payload=0.0, events=0.0, result=0.0, attempts=0.0, jobs=0.0, calls=0.0, quotes=0.0, audit=DAY)
ATTEMPTS_ONLY = Lifetimes(**{**dict.fromkeys(Lifetimes.__slots__, DAY), "payload": 0.0, "attempts": 0.0})


async def trim(store: Store, lifetimes: Lifetimes) -> None:
    """A whole pass over what is old by these lifetimes; keys are over too."""
    async with superuser(store) as connection:
        await connection.execute(
            "UPDATE hourglass.idempotency_keys SET expire_time = clock_timestamp() - interval '1 s'"
        )
        await connection.fetch("SELECT pg_sleep(0.003)")
    retention = Retention(store.worker, policy_of, RetentionTerms(lifetimes=lifetimes, interval=0.0))
    for _ in range(50):
        if not (await retention.trim(budget=time_enough())).more:
            return
    raise AssertionError("the pass does not end")


async def costs(store: Store, relation: str = "provider_costs") -> Sequence[asyncpg.Record]:
    """What was paid, as the read-only role may see it too."""
    async with superuser(store) as connection, connection.transaction():
        await connection.execute("SET LOCAL ROLE hourglass_readonly")
        rows: Sequence[asyncpg.Record] = await connection.fetch(
            "SELECT tenant_id, lane, attempts, cost, worst_case, overrun "
            f"FROM hourglass.{relation} ORDER BY tenant_id, lane"
        )
        return rows


async def job_with_two_attempts(store: Store) -> None:
    """One of unknown cost, and one whose answer cost more than was reserved."""
    lost = await store.running()
    await store.runs.requeue([return_of(lost, Cause.UNKNOWN_OUTCOME, unknown())], budget=time_enough())
    run = await store.claim_one()
    await store.start(run)
    dear = acceptance_of(run, charge=CHARGE + OVER_THE_RESERVATION)
    await store.runs.finish([dear], budget=time_enough())


async def settled_call(store: Store) -> None:
    """A short call that nobody knows the cost of, charged more than was reserved."""
    calls = CallStore(store.request, policy_of)
    call = NewCall(
        tenant=TENANT,
        call_id=new_call_id(),
        principal="ann",
        model="fast-1",
        time_left=1.0,
        lane="acme/other",
        price_version="v1",
        amount=Decimal("0.25"),
        worst_case=WORST_CASE,
    )
    await calls.reserve(call, budget=time_enough())
    end = CallEnd(
        outcome=AttemptOutcome.UNKNOWN,
        cause="WORKER_GONE",
        charge=Decimal("0.75"),
        usage=NO_USAGE,
        cost=ProviderCost.unknown(WORST_CASE),
    )
    await calls.settle(Settlement(tenant=TENANT, call_id=call.call_id, end=end), budget=time_enough())


async def test_what_attempts_and_calls_cost_is_the_same_before_and_after_they_are_deleted(
    store: Store,
) -> None:
    await store.tenant()
    await job_with_two_attempts(store)
    await settled_call(store)
    before = await costs(store)
    assert [(TENANT, "acme/other", 1), (TENANT, LANE, 2)] == [tuple(row)[:3] for row in before]
    assert all(row["worst_case"] == WORST_CASE and row["overrun"] > 0 for row in before)
    assert [] == await costs(store, "archived_costs")
    await trim(store, ATTEMPTS_ONLY)
    assert before == await costs(store)
    await trim(store, NOW)
    assert before == await costs(store) == await costs(store, "archived_costs")


async def test_archived_costs_add_up_over_many_passes(store: Store) -> None:
    await store.tenant()
    for _ in range(2):
        await job_with_two_attempts(store)
        await trim(store, NOW)
        await trim(store, NOW)
    (row,) = await costs(store, "archived_costs")
    assert (4, 2 * CHARGE, 2 * WORST_CASE) == (row["attempts"], row["cost"], row["worst_case"])
    assert row["overrun"] > OVER_THE_RESERVATION


async def test_a_tenant_sees_its_own_archived_costs_only(store: Store) -> None:
    await store.tenant()
    await job_with_two_attempts(store)
    await trim(store, NOW)
    policy = policy_of("look")
    async with store.request.transaction(time_enough(), policy, tenants=["zeta"]) as transaction:
        assert [] == await transaction.fetch("SELECT lane FROM hourglass.archived_costs")
    async with store.request.transaction(time_enough(), policy, tenants=[TENANT]) as transaction:
        assert [LANE] == [
            r["lane"] for r in await transaction.fetch("SELECT lane FROM hourglass.provider_costs")
        ]
