"""Whose jobs a claim takes: tenants by their weight, and within one tenant by priority and age."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction

import pytest

from jobs_store.identifiers import TenantId
from jobs_store.turns import Turn
from tests.integration.store.locks import superuser
from tests.store import TENANT, Store, seeded

pytestmark = pytest.mark.every_postgres

Weights = Mapping[TenantId, int]
CYCLES = 3


async def backlog(store: Store, weights: Weights, *, cycles: int = CYCLES) -> None:
    """Tenants with work for some cycles, and one cycle more so that nobody runs dry."""
    for tenant, weight in weights.items():
        await store.tenant(tenant, weight=weight, max_running=1000)
        await asyncio.gather(*(store.create(tenant) for _ in range(weight * (cycles + 1))))


def spread(starts: Counter[TenantId], weights: Weights) -> Fraction:
    """How far the tenant that is ahead is ahead of the one that is behind, in cycles."""
    cycles = [Fraction(starts[tenant], weight) for tenant, weight in weights.items()]
    return max(cycles) - min(cycles)


def drawn(seed: int, *, tenants: int = 6) -> Weights:
    """Tenants with weights; the seed tells which."""
    chance = seeded(seed)
    return {TenantId(f"tenant-{n}"): chance.choice([1, 1, 2, 3, 5, 7]) for n in range(tenants)}


@pytest.mark.parametrize("seed", range(3))
async def test_starts_are_shared_by_weight_at_every_moment(busy_store: Store, seed: int) -> None:
    """Whatever a claim asks for, nobody who waits is ever more than one cycle ahead of anybody else."""
    weights, chance, starts, turn = drawn(seed), seeded(seed), Counter[TenantId](), Turn()
    await backlog(busy_store, weights)
    total = CYCLES * sum(weights.values())
    while starts.total() < total:
        slots = min(chance.choice([1, 1, 2, 5, 12]), total - starts.total())
        dealt = await busy_store.deal(slots, turn)
        assert slots == len(dealt.runs)
        turn = dealt.turn
        starts.update(run.tenant for run in dealt.runs)
        assert spread(starts, weights) <= 1
    assert {tenant: CYCLES * weight for tenant, weight in weights.items()} == starts


async def test_shares_hold_when_more_tenants_wait_than_a_claim_looks_at(busy_store: Store) -> None:
    weights, starts, turn = drawn(7, tenants=9), Counter[TenantId](), Turn()
    await backlog(busy_store, weights)
    for _ in range(CYCLES * sum(weights.values())):
        dealt = await busy_store.deal(1, turn, tenants=2)
        turn = dealt.turn
        starts.update(run.tenant for run in dealt.runs)
        assert spread(starts, weights) <= 1
    assert {tenant: CYCLES * weight for tenant, weight in weights.items()} == starts


async def test_two_workers_that_claim_at_once_keep_the_shares_together(busy_store: Store) -> None:
    weights = {TenantId("small"): 1, TenantId("large"): 4}
    await backlog(busy_store, weights, cycles=10)
    claimed = await asyncio.gather(*(claim_one_by_one(busy_store, times=20) for _ in range(2)))
    starts = claimed[0] + claimed[1]
    assert 40 == starts.total()
    assert spread(starts, weights) <= 2


async def claim_one_by_one(store: Store, *, times: int) -> Counter[TenantId]:
    """What a worker gets whose slots come free one after the other."""
    starts, turn = Counter[TenantId](), Turn()
    for _ in range(times):
        dealt = await store.deal(1, turn)
        turn = dealt.turn
        starts.update(run.tenant for run in dealt.runs)
    return starts


async def test_heavy_tenants_take_turns_with_each_other(busy_store: Store) -> None:
    """Weights are shares, not lengths of a run: equal ones alternate, however large they are."""
    weights = {TenantId("a"): 100, TenantId("b"): 100}
    for tenant, weight in weights.items():
        await busy_store.tenant(tenant, weight=weight)
        await asyncio.gather(*(busy_store.create(tenant) for _ in range(4)))
    assert ["a", "b", "a", "b"] == [run.tenant for run in await busy_store.claim(4)]


async def test_who_did_not_wait_has_saved_up_nothing(busy_store: Store) -> None:
    """A tenant that comes late shares from then on, and does not make up for what it did not want before."""
    weights = {TenantId("early"): 1, TenantId("late"): 1}
    await backlog(busy_store, {TenantId("early"): 1}, cycles=20)
    turn = (await busy_store.deal(10, Turn())).turn
    await backlog(busy_store, {TenantId("late"): 1}, cycles=20)
    dealt = await busy_store.deal(10, turn)
    assert spread(Counter(run.tenant for run in dealt.runs), weights) <= 1


async def test_priority_counts_within_one_tenant_only(busy_store: Store) -> None:
    urgent, calm = await busy_store.tenant(TenantId("urgent")), await busy_store.tenant(TenantId("calm"))
    for _ in range(4):
        await busy_store.create(urgent, priority=100)
        await busy_store.create(calm, priority=-100)
    starts = Counter(run.tenant for run in await busy_store.claim(4))
    assert {urgent: 2, calm: 2} == starts


@pytest.mark.parametrize(("waited", "first"), [(9, "high"), (11, "low")])
async def test_waiting_outweighs_priority(store: Store, waited: int, first: str) -> None:
    """A step of priority is worth a minute: nothing is put off for ever by what is more urgent and newer."""
    await store.tenant()
    jobs = {"low": await store.create(priority=-5), "high": await store.create(priority=5)}
    async with superuser(store) as connection:
        await connection.execute(
            "UPDATE hourglass.jobs SET ready_time = ready_time - make_interval(mins => $1) WHERE id = $2",
            waited,
            jobs["low"],
        )
    assert jobs[first] == (await store.claim_one()).job_id


async def test_the_most_urgent_job_goes_first_however_many_priorities_there_are(
    busy_store: Store,
) -> None:
    """And its priorities take no other tenant's place."""
    await busy_store.tenant()
    other = await busy_store.tenant(TenantId("zeta"))
    ids = await asyncio.gather(*(busy_store.create(priority=n) for n in range(-100, 101, 2)))
    await busy_store.create(other)
    assert [ids[-1]] == [run.job_id for run in await busy_store.claim(1, tenants=2)]
    runs = await busy_store.claim(2, tenants=12)
    assert {TENANT: ids[-2], other: runs[-1].job_id} == {run.tenant: run.job_id for run in runs}
