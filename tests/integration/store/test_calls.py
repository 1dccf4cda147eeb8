"""The money of short calls: set aside before the send, settled once, whoever ends them and however often."""

import asyncio
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import asyncpg
import pytest

from jobs_store.attempts import ProviderCost
from jobs_store.call_reaping import CallReaping
from jobs_store.calls import CallEnd, CallStore, NewCall, Settlement
from jobs_store.errors import InsufficientFunds, LaneClosed, TenantNotFound
from jobs_store.identifiers import TenantId, new_call_id
from jobs_store.states import AttemptOutcome, CostBasis
from tests.integration.store.locks import superuser, until_waiting
from tests.store import CARD, CHARGE, LANE, RESERVED, TENANT, USAGE, WORST_CASE, Store, policy_of, time_enough

pytestmark = pytest.mark.every_postgres

OTHER = TenantId("zeta")
NOTHING = Decimal(0)
FUNDS = Decimal(1)
SUCCEEDED = CallEnd(
    outcome=AttemptOutcome.SUCCEEDED,
    cause="COMPLETED",
    charge=CHARGE,
    usage=USAGE,
    cost=ProviderCost.known(CARD, USAGE, CostBasis.REPORTED),
    provider_request_id="req-1",
)
NOT_SENT = CallEnd(outcome=AttemptOutcome.NOT_SENT, cause="OVERLOADED")


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """Calls over a store with one funded tenant: callers' side as the request role, reaping as workers."""

    store: Store
    calls: CallStore
    reaping: CallReaping

    async def reserve(self, tenant: TenantId = TENANT, **changed: Any) -> NewCall:
        """Make a call."""
        call = replace(new_call(tenant), **changed)
        await self.calls.reserve(call, budget=time_enough())
        return call

    async def settle(self, call: NewCall, end: CallEnd = SUCCEEDED) -> Decimal | None:
        """Settle a call."""
        settlement = Settlement(tenant=call.tenant, call_id=call.call_id, end=end)
        return await self.calls.settle(settlement, budget=time_enough())

    async def row(self, call: NewCall) -> asyncpg.Record:
        """The call's row."""
        async with superuser(self.store) as connection:
            row = await connection.fetchrow("SELECT * FROM hourglass.calls WHERE id = $1", call.call_id)
        assert row is not None
        return row

    async def count(self) -> int:
        """How many calls there are."""
        async with superuser(self.store) as connection:
            return int(await connection.fetchval("SELECT count(*) FROM hourglass.calls"))

    async def funds(self, tenant: TenantId = TENANT) -> tuple[Decimal, Decimal, Decimal]:
        """Available, reserved, captured."""
        found = await self.store.tenants.get(tenant, budget=time_enough())
        return found.available, found.reserved, found.captured


def new_call(tenant: TenantId = TENANT) -> NewCall:
    """A call of these tests."""
    return NewCall(
        tenant=tenant,
        call_id=new_call_id(),
        principal="ada",
        model="fast",
        lane=LANE,
        time_left=10.0,
        price_version="1",
        amount=RESERVED,
        worst_case=WORST_CASE,
    )


@pytest.fixture
async def calls(store: Store) -> Calls:
    """Calls of a tenant with a dollar."""
    await store.tenant(funds=FUNDS)
    return Calls(
        store=store,
        calls=CallStore(store.request, policy_of),
        reaping=CallReaping(store.worker, policy_of, grace=30.0, page_size=100),
    )


async def test_a_call_sets_its_worst_case_aside_until_it_is_settled(calls: Calls) -> None:
    call = await calls.reserve()
    assert (FUNDS - RESERVED, RESERVED, NOTHING) == await calls.funds()
    assert CHARGE == await calls.settle(call)
    assert (FUNDS - CHARGE, NOTHING, CHARGE) == await calls.funds()
    row = await calls.row(call)
    assert (RESERVED, CHARGE, RESERVED - CHARGE) == (row["amount"], row["captured"], row["released"])
    assert ("SUCCEEDED", "COMPLETED", "req-1") == (row["outcome"], row["cause"], row["provider_request_id"])
    assert (CHARGE, "REPORTED", NOTHING) == (row["cost"], row["cost_basis"], row["worst_case"])
    assert (100, 0, 50) == (row["input_tokens"], row["cached_input_tokens"], row["output_tokens"])


async def test_a_call_has_its_callers_deadline_by_the_databases_clock(calls: Calls) -> None:
    row = await calls.row(await calls.reserve(time_left=7.5))
    assert 7.5 == (row["deadline"] - row["create_time"]).total_seconds()


@pytest.mark.scenario("M11")
async def test_without_funds_there_is_no_call(calls: Calls) -> None:
    with pytest.raises(InsufficientFunds) as refused:
        await calls.reserve(amount=FUNDS + RESERVED)
    assert {"required": "1.01", "available": "1.000000000"} == refused.value.metadata
    with pytest.raises(TenantNotFound):
        await calls.reserve(OTHER)
    assert 0 == await calls.count()
    assert (FUNDS, NOTHING, NOTHING) == await calls.funds()


async def test_a_parked_or_paused_lane_takes_no_call(calls: Calls) -> None:
    await calls.store.runs.park_lane(LANE, duration=60.0, cause="HTTP_429", budget=time_enough())
    with pytest.raises(LaneClosed) as parked:
        await calls.reserve()
    assert parked.value.retry_after == pytest.approx(60.0, abs=20.0)
    async with superuser(calls.store) as connection:
        await connection.execute("UPDATE hourglass.lanes SET park_until = now() - interval '1 s'")
        await calls.reserve()
        await connection.execute("UPDATE hourglass.lanes SET paused_time = now()")
    with pytest.raises(LaneClosed) as paused:
        await calls.reserve()
    assert paused.value.retry_after is None
    assert 1 == await calls.count()


async def test_funds_for_three_calls_make_exactly_three_of_fifty(calls: Calls) -> None:
    amount = FUNDS / 3 - Decimal("0.01")
    outcomes = await asyncio.gather(
        *(calls.reserve(amount=amount) for _ in range(50)), return_exceptions=True
    )
    assert 47 == sum(isinstance(outcome, InsufficientFunds) for outcome in outcomes)
    assert 3 == await calls.count()


async def test_a_call_is_settled_once_whoever_settles_it_again(calls: Calls) -> None:
    call = await calls.reserve(time_left=-31.0)
    settled = await asyncio.gather(
        *(calls.settle(call, end) for end in (SUCCEEDED, NOT_SENT, SUCCEEDED, NOT_SENT))
    )
    assert 0 == await calls.reaping.settle_overdue(budget=time_enough())
    (captured,) = [amount for amount in settled if amount is not None]
    assert (FUNDS - captured, NOTHING, captured) == await calls.funds()


async def test_who_waited_for_another_settlement_finds_nothing_left(calls: Calls) -> None:
    call = await calls.reserve()
    async with superuser(calls.store) as watching, superuser(calls.store) as other:
        async with other.transaction():
            await other.execute(
                "UPDATE hourglass.calls SET released = amount, settle_time = now(), outcome = 'FAILED', "
                "cause = 'X' WHERE id = $1",
                call.call_id,
            )
            settling = asyncio.ensure_future(calls.settle(call))
            await until_waiting(watching)
        assert await settling is None


async def test_what_goes_beyond_the_reservation_is_the_operators(calls: Calls) -> None:
    call = await calls.reserve()
    beyond = Decimal("0.002")
    assert RESERVED == await calls.settle(call, replace(SUCCEEDED, charge=RESERVED + beyond))
    async with superuser(calls.store) as connection:
        overrun = await connection.fetchrow("SELECT subject_id, amount FROM hourglass.overruns")
    assert overrun is not None
    assert (call.call_id, beyond) == (overrun["subject_id"], overrun["amount"])
    assert (FUNDS - RESERVED, NOTHING, RESERVED) == await calls.funds()


async def test_a_call_that_was_never_made_settles_to_nothing(calls: Calls) -> None:
    assert await calls.settle(new_call()) is None
    assert (FUNDS, NOTHING, NOTHING) == await calls.funds()


async def test_nobody_settles_another_tenants_call(calls: Calls) -> None:
    await calls.store.tenant(OTHER)
    call = await calls.reserve()
    assert await calls.settle(replace(call, tenant=OTHER)) is None
    assert (FUNDS - RESERVED, RESERVED, NOTHING) == await calls.funds()


@pytest.mark.scenario("M11")
async def test_the_reaper_settles_what_nobody_reported_and_captures_nothing(calls: Calls) -> None:
    lost, live = await calls.reserve(time_left=-31.0), await calls.reserve(time_left=-29.0)
    reaped = await calls.store.reaper.reap(budget=time_enough())
    assert 1 == reaped.calls_settled
    assert (FUNDS - RESERVED, RESERVED, NOTHING) == await calls.funds()
    row = await calls.row(lost)
    assert ("UNKNOWN", "NOT_REPORTED", NOTHING) == (row["outcome"], row["cause"], row["captured"])
    assert ("UNKNOWN", NOTHING, WORST_CASE) == (row["cost_basis"], row["cost"], row["worst_case"])
    assert (await calls.row(live))["settle_time"] is None
    assert await calls.settle(lost) is None


async def test_the_reaper_settles_page_by_page_over_all_tenants(calls: Calls) -> None:
    await calls.store.tenant(OTHER, funds=FUNDS)
    for tenant in (TENANT, OTHER, TENANT, OTHER, TENANT):
        await calls.reserve(tenant, time_left=-60.0)
    reaping = CallReaping(calls.store.worker, policy_of, grace=30.0, page_size=2)
    assert [2, 2, 1, 0] == [await reaping.settle_overdue(budget=time_enough()) for _ in range(4)]
    for tenant in (TENANT, OTHER):
        assert (FUNDS, NOTHING, NOTHING) == await calls.funds(tenant)


async def test_the_reaper_does_not_wait_for_a_call_that_is_being_settled(calls: Calls) -> None:
    held, free = await calls.reserve(time_left=-60.0), await calls.reserve(time_left=-60.0)
    async with superuser(calls.store) as connection, connection.transaction():
        await connection.fetch("SELECT FROM hourglass.calls WHERE id = $1 FOR UPDATE", held.call_id)
        assert 1 == await calls.reaping.settle_overdue(budget=time_enough())
    assert (await calls.row(free))["settle_time"] is not None
    assert (await calls.row(held))["settle_time"] is None


async def test_settlements_and_reapers_at_once_deadlock_never_and_lose_nothing(calls: Calls) -> None:
    await calls.store.tenant(OTHER, funds=FUNDS)
    made = [await calls.reserve(tenant, time_left=-60.0) for tenant in (TENANT, OTHER) * 20]
    reaping = CallReaping(calls.store.worker, policy_of, grace=30.0, page_size=7)
    settled, reaped = await asyncio.gather(
        asyncio.gather(*(calls.settle(call, NOT_SENT) for call in reversed(made))),
        asyncio.gather(*(reaping.settle_overdue(budget=time_enough()) for _ in range(6))),
    )
    rest = await reaping.settle_overdue(budget=time_enough())
    assert len(made) == sum(amount is not None for amount in settled) + sum(reaped) + rest
    for tenant in (TENANT, OTHER):
        assert (FUNDS, NOTHING, NOTHING) == await calls.funds(tenant)


async def test_overdue_calls_are_found_by_their_index(calls: Calls) -> None:
    async with superuser(calls.store) as connection:
        await connection.execute("SET ROLE hourglass_worker; SET enable_seqscan = off")
        lines = await connection.fetch(
            "EXPLAIN SELECT c.tenant_id, c.id FROM hourglass.calls c WHERE c.settle_time IS NULL "
            "AND c.deadline < (SELECT clock_timestamp() - make_interval(secs => 30)) "
            "ORDER BY c.deadline LIMIT 100 FOR NO KEY UPDATE SKIP LOCKED"
        )
    plan = "\n".join(line[0] for line in lines)
    assert "deadline" in plan
    assert "Seq Scan" not in plan
    assert "Sort" not in plan.replace("Sort Key", "")
