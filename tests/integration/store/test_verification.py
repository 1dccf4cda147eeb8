"""Verifying a live database: in pages, beside everything else, and as a role that cannot change anything."""

import asyncio
import random
from collections.abc import Callable, Iterable
from decimal import Decimal

import pytest

from budget.core import Budget
from budget.errors import BudgetTooLow
from jobs_store.errors import TenantNotFound
from jobs_store.identifiers import JobId, TenantId
from jobs_store.invariants.registry import ALWAYS, INVARIANTS
from jobs_store.retention import Retention, RetentionTerms
from jobs_store.verification import NotOfTenants, UnknownInvariants, VerificationTerms
from tests.integration.store.live_load import NOTHING, TENANTS, LiveLoad
from tests.integration.store.locks import holding, superuser
from tests.integration.store.verifying import Found, found_in, pages_of, verifying
from tests.postgres import TestDatabase
from tests.store import TENANT, Store, policy_of, time_enough
from tests.waiting import eventually

# Passes over all invariants, limits that have to be reached and a load beside it: slow together.
pytestmark = pytest.mark.faults

COUNTED = "ATTEMPTS_ARE_COUNTED"
BLOCKED = "LOG_HAS_NO_GAPS"
"""The one of these tests that reads events."""
OTHER = TenantId("zeta")
SHORT = 0.1
UNAUDITED = """
WITH old AS (
    INSERT INTO hourglass.audit_log (tenant_id, id, action, actor, subject)
    SELECT '*', hourglass.first_id_of(now() - interval '1 day'), 'PAUSE_LANE', 'ops', 'lane'
)
INSERT INTO hourglass.operator_requests (tenant_id, request_id, action, request_digest)
VALUES ('*', 'pause', 'PAUSE_LANE', sha256(''))
"""
AT_WORK = """
SELECT count(*) FROM pg_stat_activity
WHERE usename = 'hourglass_readonly' AND state <> 'idle' AND datname = current_database()
"""


async def miscount(store: Store) -> None:
    """Breaks COUNTED at every job."""
    async with superuser(store) as connection:
        await connection.execute("UPDATE hourglass.jobs SET counted_attempts = 1")


async def some_jobs(store: Store, count: int, tenant: TenantId = TENANT) -> list[JobId]:
    return [await store.create(tenant) for _ in range(count)]


def named(jobs: Iterable[JobId], tenant: TenantId = TENANT) -> Found:
    return {COUNTED: [(tenant, str(job)) for job in jobs]}


@pytest.mark.every_postgres
async def test_every_invariant_answers_over_an_empty_database(database: TestDatabase) -> None:
    pages = await pages_of(database)
    assert list(INVARIANTS) == [page.invariant for page in pages]
    assert [] == [page for page in pages if page.violations or page.unchecked]


@pytest.mark.parametrize(("rows", "counts"), [(1, [1] * 5 + [0]), (2, [2, 2, 1]), (5, [5, 0]), (9, [5])])
async def test_pages_are_bounded_and_no_row_lies_between_two(
    store: Store, rows: int, counts: list[int]
) -> None:
    await store.tenant()
    jobs = await some_jobs(store, 5)
    await miscount(store)
    pages = await pages_of(store.database, VerificationTerms(most_rows=rows), names=[COUNTED])
    assert counts == [page.checked for page in pages]
    assert named(jobs) == found_in(pages)


async def test_answers_are_bounded_and_name_all_that_is_broken(store: Store) -> None:
    await store.tenant()
    jobs = await some_jobs(store, 5)
    await miscount(store)
    pages = await pages_of(store.database, VerificationTerms(most_violations=2), names=[COUNTED])
    assert [(5, 2), (0, 2), (0, 1)] == [(page.checked, len(page.violations)) for page in pages]
    assert named(jobs) == found_in(pages)


async def test_what_has_lost_its_facts_is_found_wherever_it_lies(store: Store) -> None:
    await store.tenant()
    jobs = await some_jobs(store, 5)
    async with superuser(store) as connection:
        await connection.execute("DELETE FROM hourglass.job_facts")
    for rows in (1, 2, 9):
        pages = await pages_of(
            store.database, VerificationTerms(most_rows=rows), names=["JOB_ROWS_HAVE_FACTS"]
        )
        assert [(TENANT, str(job)) for job in jobs] == sorted(found_in(pages)["JOB_ROWS_HAVE_FACTS"])


async def test_one_tenant_is_verified_alone(store: Store) -> None:
    await store.tenant()
    await store.tenant(OTHER)
    await some_jobs(store, 2)
    others = await some_jobs(store, 2, OTHER)
    await miscount(store)
    pages = await pages_of(store.database, tenant=OTHER)
    assert named(others, OTHER) == found_in(pages)
    assert 2 == sum(page.checked for page in pages if page.invariant == COUNTED)
    assert {name for name, each in INVARIANTS.items() if each.scope.of_tenants} == {
        page.invariant for page in pages
    }


async def test_tenants_are_verified_in_pages(store: Store) -> None:
    for number in range(5):
        await store.tenant(TenantId(f"tenant-{number}"))
    pages = await pages_of(store.database, VerificationTerms(most_rows=2), names=["FUNDS_BALANCE"])
    assert [2, 2, 1] == [page.checked for page in pages]


async def test_what_cannot_be_verified_is_refused(database: TestDatabase) -> None:
    with pytest.raises(UnknownInvariants, match="NO_SUCH: known are TENANT_IS_WHOLE, "):
        await pages_of(database, names=["FUNDS_BALANCE", "NO_SUCH"])
    with pytest.raises(NotOfTenants, match="LANE_COUNTS_ITS_RUNS"):
        await pages_of(database, names=["LANE_COUNTS_ITS_RUNS"], tenant=TENANT)
    with pytest.raises(TenantNotFound):
        await pages_of(database, tenant=TENANT)


async def test_decisions_about_no_tenant_are_verified_too(store: Store) -> None:
    async with superuser(store) as connection:
        await connection.execute(UNAUDITED)
    assert {"DECISION_IS_AUDITED": [("*", "pause")]} == found_in(await pages_of(store.database))


async def test_what_retention_has_begun_to_take_is_not_missed(store: Store) -> None:
    """One event at a time, then one attempt: every state between is one that others may see."""
    await store.tenant()
    await store.succeeded()
    async with superuser(store) as connection:
        await connection.fetch("SELECT pg_sleep(0.003)")
    terms = RetentionTerms(lifetimes=NOTHING, interval=0.0, page_size=1, statements=1)
    retention = Retention(store.worker, policy_of, terms)
    for _ in range(60):
        if not (await retention.trim(budget=time_enough())).more:
            break
        assert {} == found_in(await pages_of(store.database, names=ALWAYS))
    else:
        raise AssertionError("the pass does not end")
    async with superuser(store) as connection:
        assert 0 == await connection.fetchval("SELECT count(*) FROM hourglass.job_events")


@pytest.mark.parametrize("table", ["jobs", "reservations", "lanes", "tenant_limits", "tenant_funds"])
async def test_verifying_waits_for_nobody(store: Store, table: str) -> None:
    await store.tenant()
    await store.running()
    async with holding(store, table):
        assert {} == found_in(await pages_of(store.database))


async def test_what_takes_too_long_is_named_and_the_rest_goes_on(store: Store) -> None:
    await store.tenant()
    jobs = await some_jobs(store, 2)
    async with superuser(store) as connection, connection.transaction():
        await connection.execute("LOCK TABLE hourglass.job_events IN ACCESS EXCLUSIVE MODE")
        async with verifying(store.database, VerificationTerms(most_rows=4)) as verification:
            pages = [
                page
                async for page in verification.pages(
                    budget_of_page=lambda: Budget.for_work(SHORT), names=[BLOCKED, "JOB_IN_ONE_PLACE"]
                )
            ]
    unchecked = [(each.tenant, each.subject) for page in pages for each in page.unchecked]
    assert [*((TENANT, str(job)) for job in jobs), ("", f"all after {jobs[-1]}")] == unchecked
    assert [(BLOCKED, 0)] * 3 + [("JOB_IN_ONE_PLACE", 2)] == [
        (page.invariant, page.checked) for page in pages
    ]


async def test_verifying_ends_with_the_budget(store: Store) -> None:
    over = Budget.for_work(1e-6)
    async with verifying(store.database) as verification:
        with pytest.raises(BudgetTooLow):
            await anext(aiter(verification.pages(budget_of_page=lambda: over)))


async def test_who_leaves_leaves_no_statement_behind(store: Store) -> None:
    async with (
        superuser(store) as blocking,
        superuser(store) as watching,
        verifying(store.database) as verification,
    ):

        async def verify() -> None:
            async for _ in verification.pages(budget_of_page=time_enough, names=[BLOCKED]):
                pass

        async def at_work() -> int:
            return int(await watching.fetchval(AT_WORK))

        async def gone() -> bool:
            return await at_work() == 0

        async with blocking.transaction():
            await blocking.execute("LOCK TABLE hourglass.job_events IN ACCESS EXCLUSIVE MODE")
            verifying_it = asyncio.create_task(verify())
            await eventually(at_work)
            verifying_it.cancel()
            await asyncio.gather(verifying_it, return_exceptions=True)
            assert verifying_it.cancelled()
            await eventually(gone)


@pytest.mark.timeout(120)
async def test_nothing_seems_broken_while_everything_goes_on(busy_store: Store) -> None:
    load = LiveLoad(busy_store, seed=7)
    await verify_beside(load, passes=3)
    assert load.done > 20


@pytest.mark.timeout(600)
async def test_nothing_seems_broken_for_long(
    busy_store: Store, record_property: Callable[[str, object], None]
) -> None:
    seed = random.randrange(2**32)
    record_property("seed", seed)
    await verify_beside(LiveLoad(busy_store, seed=seed), passes=10)


async def verify_beside(load: LiveLoad, *, passes: int) -> None:
    """As often as that, over small pages, while the load goes on."""
    for tenant in TENANTS:
        await load.store.tenant(tenant, funds=Decimal("0.5"), max_running=7)
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(load.run(stop, workers=2, callers=1))
        for _ in range(passes):
            pages = await pages_of(load.store.database, VerificationTerms(most_rows=50), names=ALWAYS)
            assert {} == found_in(pages), load.seed
            assert [] == [page for page in pages if page.unchecked]
        stop.set()
