"""One lock order: who waits for a row holds nothing that comes after it, so nothing can deadlock."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal

import pytest

from jobs_store.errors import StoreError
from jobs_store.identifiers import JobId, TenantId
from jobs_store.lifetimes import Lifetimes
from jobs_store.operator_decisions import Resolution
from jobs_store.retention import Retention, RetentionTerms
from jobs_store.runs import Claimed
from jobs_store.states import JobState
from tests.integration.store.locks import holding, locked_tables, superuser, until_waiting
from tests.store import (
    LEASE,
    OVER,
    TENANT,
    Store,
    acceptance_of,
    cancelled_end_of,
    decision_about,
    deltas_of,
    failure_of,
    hold_of,
    policy_of,
    release_of,
    return_of,
    seeded,
    time_enough,
    token_of,
)

pytestmark = pytest.mark.every_postgres

Act = Callable[[], Awaitable[object]]
Scene = Callable[[Store], Awaitable[Act]]


async def creating(store: Store) -> Act:
    return store.create


async def claiming(store: Store) -> Act:
    await store.create()
    return store.claim


async def accepting(store: Store) -> Act:
    run = await store.running()
    return lambda: store.runs.finish([acceptance_of(run)], budget=time_enough())


async def requeueing(store: Store) -> Act:
    run = await store.running()
    return lambda: store.runs.requeue([return_of(run)], budget=time_enough())


async def cancelling(store: Store) -> Act:
    job_id = await store.create()
    return lambda: store.cancellation.cancel(TENANT, job_id, principal="a", reason="", budget=time_enough())


async def retrying(store: Store) -> Act:
    run = await store.failed()
    return lambda: store.decisions.retry(decision_about(run.job_id), budget=time_enough())


async def sending_back(store: Store) -> Act:
    decision = decision_about((await store.held()).job_id)
    return lambda: store.decisions.resolve(decision, Resolution.RETRY, budget=time_enough())


async def giving_up(store: Store) -> Act:
    decision = decision_about((await store.held()).job_id)
    return lambda: store.decisions.resolve(decision, Resolution.FAIL, budget=time_enough())


async def erasing(store: Store) -> Act:
    run = await store.succeeded()
    return lambda: store.decisions.erase(decision_about(run.job_id), budget=time_enough())


async def reaping(store: Store) -> Act:
    await store.running(lease=OVER)
    return lambda: store.reaper.reap(budget=time_enough())


ORDER = [
    "idempotency_keys",
    "finished_jobs",
    "jobs",
    "reservations",
    "lanes",
    "tenant_limits",
    "tenant_funds",
]
TOUCHED: dict[Scene, list[str]] = {
    # Nobody sees the rows that a create makes before its commit: only what it shares with others counts.
    creating: ["tenant_limits", "tenant_funds"],
    claiming: ["lanes", "tenant_limits"],
    accepting: ORDER[2:],
    requeueing: ["jobs", "lanes", "tenant_limits"],
    cancelling: ["jobs", "reservations", "tenant_limits", "tenant_funds"],
    retrying: ["finished_jobs", "tenant_limits", "tenant_funds"],
    sending_back: ["jobs", "tenant_limits"],
    giving_up: ["jobs", "reservations", "tenant_limits", "tenant_funds"],
    erasing: ["finished_jobs"],
    reaping: ["jobs", "lanes", "tenant_limits"],
}
CASES = [
    pytest.param(scene, table, id=f"{scene.__name__}-{table}")
    for scene, tables in TOUCHED.items()
    for table in tables
    if (scene, table) != (reaping, "jobs")
]


@pytest.mark.parametrize(("scene", "awaited"), CASES)
async def test_who_waits_for_a_row_holds_only_what_comes_before_it(
    store: Store, scene: Scene, awaited: str
) -> None:
    await store.tenant()
    act = await scene(store)
    async with superuser(store) as watching:
        async with holding(store, awaited):
            acting = asyncio.ensure_future(act())
            await until_waiting(watching)
            locked = await locked_tables(watching) - {awaited}
        await acting
    assert locked <= set(ORDER[: ORDER.index(awaited)])
    expected = [table for table in TOUCHED[scene] if ORDER.index(table) < ORDER.index(awaited)]
    assert set(expected) <= locked


async def test_a_claim_waits_for_no_job(store: Store) -> None:
    await store.tenant()
    await store.create()
    async with holding(store, "jobs"):
        free = await store.create()
        assert [free] == [run.job_id for run in await store.claim()]


async def test_a_reaper_waits_for_no_job(store: Store) -> None:
    await store.tenant()
    busy, free = await store.running(lease=OVER), await store.running(lease=OVER)
    async with superuser(store) as connection, connection.transaction():
        await connection.fetch("SELECT FROM hourglass.jobs WHERE id = $1 FOR NO KEY UPDATE", busy.job_id)
        assert 1 == (await store.reaper.reap(budget=time_enough())).taken_over
    position = await store.reader.position(TENANT, free.job_id, budget=time_enough())
    assert JobState.QUEUED == position.state
    assert 1 == (await store.reaper.reap(budget=time_enough())).taken_over


NOTHING = Lifetimes(
    payload=0.0, events=0.0, result=0.0, attempts=0.0, jobs=0.0, calls=0.0, quotes=0.0, audit=0.0
)
"""Nothing is kept."""
WORKERS, STEPS = 8, 60
TENANTS = [TenantId(name) for name in ("a", "b", "c")]


@pytest.mark.scenario("D4")
async def test_random_interleavings_of_everything_never_deadlock(busy_store: Store) -> None:
    """DatabaseConflict would be a deadlock; every other refusal is a typed outcome."""
    for tenant in TENANTS:
        await busy_store.tenant(tenant, funds=Decimal("0.3"), max_running=7)
    shared = Shared()
    await asyncio.gather(*(Chaos(busy_store, shared, seed).go_on() for seed in range(WORKERS)))
    async with superuser(busy_store) as connection:
        deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        assert 0 == await connection.fetchval(deadlocks)
        assert 0 < await connection.fetchval("SELECT count(*) FROM hourglass.finished_jobs")


@dataclass(frozen=True, slots=True)
class Shared:
    """What all workers know: every job and every run there ever was, those of zombies included."""

    jobs: list[tuple[TenantId, JobId]] = field(default_factory=list)
    runs: list[Claimed] = field(default_factory=list)


class Chaos:
    """One worker that does anything to anything."""

    def __init__(self, store: Store, shared: Shared, seed: int) -> None:
        self.store = store
        self.shared = shared
        self.chance = seeded(seed)

    async def go_on(self) -> None:
        acts = [
            self.create, self.create, self.create, self.claim, self.claim,
            self.finish, self.requeue, self.write, self.cancel, self.reap, self.decide,
            self.trim,
        ]  # fmt: skip
        for _ in range(STEPS):
            with suppress(StoreError):
                await self.chance.choice(acts)()

    def some(self, most: int) -> list[Claimed]:
        runs = self.shared.runs
        return self.chance.sample(runs, min(len(runs), self.chance.randint(0, most)))

    async def create(self) -> None:
        tenant = self.chance.choice(TENANTS)
        self.shared.jobs.append((tenant, await self.store.create(tenant)))

    async def claim(self) -> None:
        lease = self.chance.choice([LEASE, OVER])
        self.shared.runs.extend(await self.store.claim(self.chance.randint(1, 5), lease=lease))

    async def finish(self) -> None:
        end = self.chance.choice([acceptance_of, failure_of, cancelled_end_of])
        await self.store.runs.finish([end(run) for run in self.some(5)], budget=time_enough())

    async def requeue(self) -> None:
        back = self.chance.choice([return_of, release_of, hold_of])
        await self.store.runs.requeue([back(run) for run in self.some(5)], budget=time_enough())

    async def write(self) -> None:
        runs = self.store.runs
        await self.store.start(*self.some(5))
        await runs.append([deltas_of(run, "x") for run in self.some(5)], budget=time_enough())
        await runs.renew([token_of(run) for run in self.some(9)], lease=LEASE, budget=time_enough())

    async def cancel(self) -> None:
        if self.shared.jobs:
            tenant, job_id = self.chance.choice(self.shared.jobs)
            cancellation = self.store.cancellation
            await cancellation.cancel(tenant, job_id, principal="a", reason="", budget=time_enough())

    async def decide(self) -> None:
        if self.shared.jobs:
            tenant, job_id = self.chance.choice(self.shared.jobs)
            decision = decision_about(job_id, tenant=tenant)
            resolution = self.chance.choice(list(Resolution))
            decisions, budget = self.store.decisions, time_enough()
            choices: list[Callable[[], Awaitable[object]]] = [
                lambda: decisions.retry(decision, budget=budget),
                lambda: decisions.resolve(decision, resolution, budget=budget),
                lambda: decisions.erase(decision, budget=budget),
            ]
            await self.chance.choice(choices)()

    async def trim(self) -> None:
        terms = RetentionTerms(lifetimes=NOTHING, interval=0.0, page_size=5, statements=40)
        await Retention(self.store.worker, policy_of, terms).trim(budget=time_enough())

    async def reap(self) -> None:
        await self.store.reaper.reap(budget=time_enough())
