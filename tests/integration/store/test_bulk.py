"""Bulk orders in pages: how far each goes, what each may spend, and what stops them."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from budget.core import Budget
from budget.errors import BudgetError, DatabaseError, DatabaseTimeout
from jobs_service.service.bulk import BulkPace
from jobs_store.bulk import BulkAction
from jobs_store.foresight import BulkOutcome
from jobs_store.identifiers import JobId, TenantId
from jobs_store.job_search import JobsMeant
from jobs_store.signals import Signal, cancel_asked, job_changed, jobs_ready
from jobs_store.states import JobState
from servicekit.errors import Draining
from tests.bulk import decider_of, order, outcomes_of, pages_of
from tests.integration.store.locks import Connection, superuser
from tests.store import LANE, RESERVED, TENANT, Store, policy_of, price, time_enough

pytestmark = pytest.mark.every_postgres

OTHER = TenantId("zeta")


async def failed(store: Store, count: int) -> list[JobId]:
    return [(await store.failed()).job_id for _ in range(count)]


async def test_a_page_ends_where_it_is_full_and_the_next_one_goes_on(store: Store) -> None:
    await store.tenant()
    made = await failed(store, 5)
    pages = await pages_of(decider_of(store, pace=BulkPace(size=2)), order(BulkAction.RETRY))
    assert [made[:2], made[2:4], made[4:]] == [[outcome.job_id for outcome in page] for page in pages]


async def test_a_search_that_finds_little_goes_on_where_it_looked_last(store: Store) -> None:
    await store.tenant()
    await store.tenant(OTHER)
    often = [await store.create() for _ in range(7)]
    seldom = [await store.create(OTHER, price=price(lane="seldom/lane")) for _ in range(3)]
    decider = decider_of(store, looked_at=2)
    for lane, jobs in {"nowhere": [], "seldom/lane": seldom, LANE: often}.items():
        told = await outcomes_of(decider, order(BulkAction.CANCEL, JobsMeant(lane=lane)))
        assert jobs == [outcome.job_id for outcome in told]


async def test_a_page_whose_time_is_nearly_over_tells_what_it_did_and_a_new_one_goes_on(
    store: Store,
) -> None:
    await store.tenant()
    made = await failed(store, 3)
    decider = decider_of(store, pace=BulkPace(page=10.0, enough=10.0))
    pages = await pages_of(decider, order(BulkAction.RETRY))
    assert [[job_id] for job_id in made] == [[outcome.job_id for outcome in page] for page in pages]


async def test_a_server_that_stops_ends_the_call_between_two_pages(store: Store) -> None:
    await store.tenant()
    made = await failed(store, 4)
    told: list[BulkOutcome] = []
    draining = asyncio.Event()

    async def send(outcomes: Sequence[BulkOutcome]) -> None:
        told.extend(outcomes)
        draining.set()

    wanted = order(BulkAction.RETRY)
    decider = decider_of(store, pace=BulkPace(size=2))
    with pytest.raises(Draining):
        await decider.run(wanted, send=send, draining=draining, budget=time_enough())
    assert made[:2] == [outcome.job_id for outcome in told]
    assert made[2:] == [outcome.job_id for outcome in await outcomes_of(decider, wanted)]


async def test_what_was_decided_before_a_page_broke_is_told(store: Store) -> None:
    await store.tenant()
    made = await failed(store, 3)
    told: list[BulkOutcome] = []

    async def send(outcomes: Sequence[BulkOutcome]) -> None:
        told.extend(outcomes)

    async with superuser(store) as connection:
        await connection.execute(
            "CREATE FUNCTION hourglass.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " RAISE EXCEPTION 'no space' USING ERRCODE = '57P03'; END $$"
        )
        await connection.execute(
            "CREATE TRIGGER refuse BEFORE INSERT ON hourglass.jobs FOR EACH ROW"
            f" WHEN (NEW.id = '{made[2]}') EXECUTE FUNCTION hourglass.refuse()"
        )
        with pytest.raises(DatabaseError):
            await decider_of(store).run(
                order(BulkAction.RETRY), send=send, draining=asyncio.Event(), budget=time_enough()
            )
    assert made[:2] == [outcome.job_id for outcome in told]


async def test_a_job_that_somebody_holds_is_refused_and_the_rest_is_decided(store: Store) -> None:
    await store.tenant()
    made = await failed(store, 3)
    impatient = replace(policy_of("retry_job"), limit=0.3)
    decider = decider_of(replace(store, decisions=type(store.decisions)(store.request, lambda _: impatient)))
    async with superuser(store) as connection, connection.transaction():
        await connection.fetch("SELECT FROM hourglass.finished_jobs WHERE id = $1 FOR UPDATE", made[1])
        told = await outcomes_of(decider, order(BulkAction.RETRY))
    assert ["", "DATABASE_TIMEOUT", ""] == [outcome.refused for outcome in told]
    assert JobState.FAILED is told[1].state


async def test_a_database_that_lets_nothing_go_ends_the_order(store: Store) -> None:
    await store.tenant()
    await failed(store, 4)
    impatient = replace(policy_of("retry_job"), limit=0.3)
    decider = decider_of(replace(store, decisions=type(store.decisions)(store.request, lambda _: impatient)))
    told: list[BulkOutcome] = []

    async def send(outcomes: Sequence[BulkOutcome]) -> None:
        told.extend(outcomes)

    async with superuser(store) as connection, connection.transaction():
        await connection.fetch("SELECT FROM hourglass.finished_jobs FOR UPDATE")
        with pytest.raises(DatabaseTimeout):
            await decider.run(
                order(BulkAction.RETRY), send=send, draining=asyncio.Event(), budget=time_enough()
            )
    assert ["DATABASE_TIMEOUT"] == [outcome.refused for outcome in told]


async def test_jobs_of_all_tenants_come_in_the_order_of_tenants(store: Store) -> None:
    await store.tenant(OTHER)
    await store.tenant()
    foreign = await store.create(OTHER)
    own = await store.create()
    told = await outcomes_of(decider_of(store), order(BulkAction.CANCEL, JobsMeant(lane=LANE)))
    assert [(TENANT, own), (OTHER, foreign)] == [(outcome.tenant, outcome.job_id) for outcome in told]


async def test_one_retry_takes_the_funds_that_the_next_one_lacks_in_a_dry_run_too(store: Store) -> None:
    await store.tenant(funds=RESERVED, max_queued=5)
    await failed(store, 3)
    wanted = order(BulkAction.RETRY)
    foretold = await outcomes_of(decider_of(store, pace=BulkPace(size=1)), replace(wanted, dry_run=True))
    assert ["", "INSUFFICIENT_FUNDS", "INSUFFICIENT_FUNDS"] == [outcome.refused for outcome in foretold]
    assert foretold == await outcomes_of(decider_of(store), wanted)


async def test_one_retry_takes_the_room_that_the_next_one_lacks_in_a_dry_run_too(store: Store) -> None:
    await store.tenant(max_queued=1)
    await failed(store, 2)
    wanted = order(BulkAction.RETRY)
    foretold = await outcomes_of(decider_of(store), replace(wanted, dry_run=True))
    assert ["", "QUEUE_FULL"] == [outcome.refused for outcome in foretold]
    assert foretold == await outcomes_of(decider_of(store), wanted)


async def test_everybody_whom_it_concerns_is_told_of_each_decision(store: Store) -> None:
    await store.tenant()
    signals: list[Signal] = []
    decider = decider_of(store, notify=signals.append)
    (again,) = await failed(store, 1)
    await outcomes_of(decider, replace(order(BulkAction.RETRY), dry_run=True))
    assert [] == signals
    await outcomes_of(decider, order(BulkAction.RETRY))
    assert [job_changed(TENANT, again), jobs_ready(LANE)] == signals
    signals.clear()
    await store.claim_one()
    waiting = await store.create()
    await outcomes_of(decider, order(BulkAction.CANCEL))
    assert [cancel_asked(TENANT, again), job_changed(TENANT, waiting)] == signals


async def test_jobs_are_found_by_when_they_were_created_to_the_microsecond(store: Store) -> None:
    await store.tenant()
    made = [await store.create() for _ in range(3)]
    async with superuser(store) as connection:
        rows = await connection.fetch("SELECT create_time FROM hourglass.job_facts ORDER BY create_time")
    times = [row["create_time"] for row in rows]
    between = JobsMeant(created_from=times[1], created_before=times[2])
    told = await outcomes_of(decider_of(store), replace(order(BulkAction.CANCEL, between), dry_run=True))
    assert [made[1]] == [outcome.job_id for outcome in told]
    assert datetime.now(UTC) > times[2]


async def test_an_order_ends_with_its_budget(store: Store) -> None:
    await store.tenant()
    await failed(store, 1)
    with pytest.raises(BudgetError):
        await decider_of(store).run(
            order(BulkAction.RETRY),
            send=_nobody,
            draining=asyncio.Event(),
            budget=Budget.root(incoming=0.001, default=None, cap=None),
        )
    async with superuser(store) as connection:
        assert 0 == await _audited(connection)


async def _nobody(_outcomes: Sequence[BulkOutcome]) -> None:
    """Tells nobody."""


async def _audited(connection: Connection) -> int:
    return int(
        await connection.fetchval("SELECT count(*) FROM hourglass.audit_log WHERE action LIKE 'BULK%'")
    )
