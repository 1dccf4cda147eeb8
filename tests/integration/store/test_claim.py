"""Claims: fair across tenants, exact in every limit, never blocked by what is not ready."""

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from jobs_store.decisions import MAX_CRASHES
from jobs_store.errors import QueueFull
from jobs_store.identifiers import JobId, TenantId
from jobs_store.states import Cause, JobState
from tests.integration.store.locks import Connection, superuser
from tests.store import (
    LANE,
    OVER,
    RESERVED,
    TENANT,
    Store,
    acceptance_of,
    price,
    release_of,
    return_of,
    seeded,
    time_enough,
)
from tests.waiting import eventually

pytestmark = pytest.mark.every_postgres

OTHER = TenantId("zeta")


async def create_many(store: Store, tenant: TenantId, count: int) -> list[JobId]:
    return await asyncio.gather(*(store.create(tenant) for _ in range(count)))


@pytest.mark.scenario("C3")
async def test_a_tenant_with_one_job_starts_in_the_next_claim_however_many_wait_ahead(store: Store) -> None:
    await store.tenant()
    await store.tenant(OTHER)
    await create_many(store, TENANT, 200)
    await store.create(OTHER)
    assert OTHER in {run.tenant for run in await store.claim(10)}


async def test_tenants_take_turns_by_the_rotating_start(store: Store) -> None:
    tenants = [await store.tenant(TenantId(name)) for name in ("a", "b", "c")]
    for tenant in tenants:
        await create_many(store, tenant, 3)
    after, order = "", []
    for slots in (1, 1, 1, 2, 2):
        runs = await store.claim(slots, after=after)
        order += [run.tenant for run in runs]
        after = order[-1]
    assert ["a", "b", "c", "a", "b", "c", "a"] == order


async def test_tenants_at_their_limit_take_no_places(store: Store) -> None:
    for name in "abcdefgh":
        await create_many(store, await store.tenant(TenantId(name), max_running=0), 2)
    await store.create(await store.tenant(OTHER))
    assert [OTHER] == [run.tenant for run in await store.claim(1, tenants=1)]


async def test_tenants_whose_jobs_are_not_ready_take_no_places(store: Store) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    for name in "abcdefgh":
        tenant = await store.tenant(TenantId(name))
        await store.create(tenant, schedule_time=tomorrow)
        await store.create(tenant, schedule_time=tomorrow, priority=100)
    await store.create(await store.tenant(OTHER))
    assert [OTHER] == [run.tenant for run in await store.claim(1, tenants=1)]


async def test_slots_are_shared_and_never_exceeded(store: Store) -> None:
    for name in ("a", "b", "c", "d"):
        await create_many(store, await store.tenant(TenantId(name)), 5)
    claimed = await store.claim(8)
    assert {"a": 2, "b": 2, "c": 2, "d": 2} == _by_tenant([run.tenant for run in claimed])


def _by_tenant(tenants: list[TenantId]) -> dict[str, int]:
    return {tenant: tenants.count(tenant) for tenant in sorted(set(tenants))}


async def test_priority_goes_first_within_a_tenant(store: Store) -> None:
    await store.tenant()
    low, high = await store.create(priority=-5), await store.create(priority=5)
    assert [high, low] == [(await store.claim_one()).job_id for _ in range(2)]


async def test_the_limits_hold_for_all_priorities_and_lanes_of_a_tenant_together(store: Store) -> None:
    await store.tenant(max_running=2)
    await store.runs.register_lanes(["elsewhere"], budget=time_enough())
    for priority in (-1, 0, 1):
        await store.create(priority=priority)
        await store.create(priority=priority, price=price(lane="elsewhere"))
    assert 2 == len(await store.claim(10, lanes=[LANE, "elsewhere"]))


async def test_the_limit_of_a_lane_holds_for_all_tenants_together(store: Store) -> None:
    for name in "abcd":
        await create_many(store, await store.tenant(TenantId(name)), 2)
    async with superuser(store) as connection:
        await connection.execute("UPDATE hourglass.lanes SET max_running = 3")
    assert ["a", "b", "c"] == [run.tenant for run in await store.claim(10)]
    assert [] == await store.claim(10)


@pytest.mark.scenario("C6")
async def test_a_job_that_waits_for_its_backoff_holds_up_no_ready_one(store: Store) -> None:
    await store.tenant()
    await store.create(priority=100)
    first = await store.claim_one()
    await store.start(first)
    await store.runs.requeue([return_of(first, delay=60.0)], budget=time_enough())
    ready = await store.create()
    assert [ready] == [run.job_id for run in await store.claim(10)]


async def test_a_job_with_a_newer_spec_waits_for_a_newer_worker(store: Store) -> None:
    await store.tenant()
    newer, known = await store.create(), await store.create()
    async with superuser(store) as connection:
        await connection.execute("UPDATE hourglass.jobs SET spec_version = 99 WHERE id = $1", newer)
    assert [known] == [run.job_id for run in await store.claim(10)]


async def test_a_worker_gets_jobs_of_its_lanes_only(store: Store) -> None:
    await store.tenant()
    await store.create(price=price(lane="elsewhere"))
    await store.runs.register_lanes(["elsewhere"], budget=time_enough())
    assert [] == await store.claim(10)
    assert 1 == len(await store.claim(10, lanes=[LANE, "elsewhere"]))


async def test_a_full_queue_refuses_and_leaves_nothing(store: Store) -> None:
    await store.tenant(max_queued=2)
    outcomes = await asyncio.gather(*(store.create() for _ in range(10)), return_exceptions=True)
    assert 8 == sum(isinstance(outcome, QueueFull) for outcome in outcomes)
    async with superuser(store) as connection:
        for table in ("jobs", "job_facts", "job_payloads", "reservations", "idempotency_keys", "job_events"):
            assert 2 == await connection.fetchval(f"SELECT count(*) FROM hourglass.{table}")
        assert 2 == await connection.fetchval("SELECT queued FROM hourglass.tenant_limits")
        assert 2 * RESERVED == await connection.fetchval("SELECT reserved FROM hourglass.tenant_funds")


LIMIT, LANE_LIMIT, CLAIMERS, JOBS = 5, 7, 8, 15
SECOND_LANE = "simulated/slow"

# What a commit may never show is refused at once. A CHECK would not do: PostgreSQL also tries it on the row
# as the statement's snapshot shows it, before it waits for whoever changes that row.
NEVER_ABOVE = """
CREATE FUNCTION never_above() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    ASSERT NEW.running <= coalesce(NEW.max_running, NEW.running), TG_TABLE_NAME;
    RETURN NULL;
END $$;
CREATE TRIGGER never_above AFTER UPDATE ON hourglass.tenant_limits
    FOR EACH ROW EXECUTE FUNCTION never_above();
CREATE TRIGGER never_above AFTER UPDATE ON hourglass.lanes
    FOR EACH ROW EXECUTE FUNCTION never_above();
"""


@pytest.mark.scenario("C4")
async def test_no_limit_is_ever_exceeded_by_concurrent_claimers(busy_store: Store) -> None:
    """Half of them serve one lane, half the other, so that nothing but the tenant's own limit bounds both."""
    tenants = [await busy_store.tenant(tenant, max_running=LIMIT) for tenant in (TENANT, OTHER)]
    await busy_store.runs.register_lanes([SECOND_LANE], budget=time_enough())
    async with superuser(busy_store) as connection:
        await connection.execute(NEVER_ABOVE)
        await connection.execute("UPDATE hourglass.lanes SET max_running = $1", LANE_LIMIT)
        for tenant in tenants:
            for lane in (LANE, SECOND_LANE):
                await asyncio.gather(
                    *(busy_store.create(tenant, price=price(lane=lane)) for _ in range(JOBS))
                )
        done = asyncio.Event()
        watching = asyncio.ensure_future(_most_running(connection, done))
        accepted = await asyncio.gather(*(_work(busy_store, seed, done) for seed in range(CLAIMERS)))
        per_tenant, per_lane = await watching
    assert 4 * JOBS == sum(accepted)
    assert 0 < per_tenant <= LIMIT
    assert 0 < per_lane <= LANE_LIMIT


async def _work(store: Store, seed: int, done: asyncio.Event) -> int:
    """Claim and end jobs until none is left; a third of them goes back first."""
    chance, accepted, lane = seeded(seed), 0, (LANE, SECOND_LANE)[seed % 2]
    while not done.is_set():
        slots = chance.randint(1, 6)
        runs = await store.claim(slots, lanes=[lane], after=chance.choice(["", TENANT]))
        assert len(runs) <= slots
        for run in runs:
            await asyncio.sleep(0)
            if run.attempt_number < 3 and chance.random() < 0.3:
                await store.runs.requeue([release_of(run)], budget=time_enough())
            else:
                await store.start(run)
                await store.runs.finish([acceptance_of(run)], budget=time_enough())
                accepted += 1
        if not runs and await _nothing_left(store):
            done.set()
    return accepted


async def _nothing_left(store: Store) -> bool:
    tenants = [await store.tenants.get(tenant, budget=time_enough()) for tenant in (TENANT, OTHER)]
    return all(tenant.queued == tenant.running == 0 for tenant in tenants)


async def _most_running(connection: Connection, done: asyncio.Event) -> tuple[int, int]:
    """The most jobs that one snapshot showed RUNNING, of a tenant and of a lane."""
    per_tenant = per_lane = 0

    async def look() -> bool:
        nonlocal per_tenant, per_lane
        rows = await connection.fetch("SELECT tenant_id, lane FROM hourglass.jobs WHERE state = 'RUNNING'")
        per_tenant = max([per_tenant, *Counter(row["tenant_id"] for row in rows).values()])
        per_lane = max([per_lane, *Counter(row["lane"] for row in rows).values()])
        return done.is_set()

    await eventually(look, within=50.0)
    return per_tenant, per_lane


@pytest.mark.scenario("C7")
async def test_a_release_costs_nothing(store: Store) -> None:
    await store.tenant()
    job_id = await store.create()
    for _ in range(3):
        await store.runs.requeue([release_of(await store.claim_one())], budget=time_enough())
    detail = await store.reader.get(TENANT, job_id, budget=time_enough())
    assert (JobState.QUEUED, 0) == (detail.job.state, detail.job.attempt_count)
    assert (RESERVED, Decimal(0)) == (detail.job.reserved, detail.job.captured)
    tenant = await store.tenants.get(TENANT, budget=time_enough())
    assert (0, 1, RESERVED) == (tenant.running, tenant.queued, tenant.reserved)


@pytest.mark.scenario("C7")
async def test_a_payload_that_kills_its_worker_before_the_send_ends_as_poisoned(store: Store) -> None:
    await store.tenant()
    job_id = await store.create()
    for crash in range(MAX_CRASHES):
        assert crash + 1 == (await store.claim_one(lease=OVER)).attempt_number
        await store.reaper.reap(budget=time_enough())
    detail = await store.reader.get(TENANT, job_id, budget=time_enough())
    assert (JobState.FAILED, Cause.POISONED) == (detail.job.state, detail.job.state_cause)
    assert (Decimal(0), Decimal(0)) == (detail.job.reserved, detail.job.captured)


async def test_a_release_between_crashes_neither_counts_nor_clears(store: Store) -> None:
    await store.tenant()
    await store.create()
    await store.claim_one(lease=OVER)
    await store.reaper.reap(budget=time_enough())
    await store.runs.requeue([release_of(await store.claim_one())], budget=time_enough())
    assert 1 == (await store.claim_one()).tally.crash_count


async def test_a_parked_lane_stops_all_and_its_time_counts_for_nobody(store: Store) -> None:
    await store.tenant()
    job_id = await store.create(queue_timeout=0.5)
    for cause in ("HTTP_429", "HTTP_401"):
        await store.runs.park_lane(LANE, duration=0.4, cause=cause, budget=time_enough())
    assert [] == await store.claim()
    async with superuser(store) as connection:
        closed = await connection.fetchval(
            "SELECT sum(end_time - start_time) < interval '0.5 s' FROM hourglass.lane_closures"
        )
        assert closed, "two parkings that overlap are one closure"

    async def expired() -> bool:
        return 1 == (await store.reaper.reap(budget=time_enough())).expired

    await eventually(expired)
    detail = await store.reader.get(TENANT, job_id, budget=time_enough())
    assert detail.job.end_time is not None
    assert 0.9 <= (detail.job.end_time - detail.job.create_time).total_seconds()
