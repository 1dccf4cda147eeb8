"""What is old goes, class by class, in bounded statements; what is alive, unsettled or needed stays."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from jobs_store.creation import KeyTaken
from jobs_store.errors import ContentGone, JobNotFound
from jobs_store.identifiers import START, TenantId, new_call_id, new_quote_id
from jobs_store.lifetimes import DAY, Lifetimes
from jobs_store.new_job import SPEC_VERSION
from jobs_store.reading import JobDetail
from jobs_store.retention import Retention, RetentionTerms
from jobs_store.runs import Claimed
from jobs_store.statements import statement
from jobs_store.stored_json import dump
from tests.integration.store.invariants import broken
from tests.integration.store.locks import Connection, superuser
from tests.store import (
    CHARGE,
    LANE,
    LEASE,
    TENANT,
    Store,
    decision_about,
    new_job,
    policy_of,
    time_enough,
)

pytestmark = pytest.mark.every_postgres

NOW = Lifetimes(payload=0.0, events=0.0, result=0.0, attempts=0.0, jobs=0.0, calls=0.0, quotes=0.0, audit=DAY)
"""Everything but the audit log is old at once."""
OTHER = TenantId("zeta")
CLAIM = ([LANE], SPEC_VERSION, 50, "worker", "worker:1", LEASE, "", 100, 0, 1)
CROWD = Path(__file__).with_name("crowd.sql")


async def trim(store: Store, lifetimes: Lifetimes = NOW, *, page_size: int = 500) -> dict[str, int]:
    """A whole pass; the rows that went, by class."""
    await in_the_past(store)
    terms = RetentionTerms(lifetimes=lifetimes, interval=0.0, page_size=page_size, tenants=10)
    retention, rows = Retention(store.worker, policy_of, terms), Counter[str]()
    for _ in range(100_000):
        trimmed = await retention.trim(budget=time_enough())
        assert all(count <= terms.statements * page_size for count in trimmed.rows.values())
        rows.update(trimmed.rows)
        if not trimmed.more:
            return dict(rows)
    raise AssertionError("the pass does not end")


async def in_the_past(store: Store) -> None:
    """Until the clock has left the millisecond that the last id was made in."""
    async with superuser(store) as connection:
        await connection.fetch("SELECT pg_sleep(0.003)")


async def rows_of(store: Store, table: str) -> int:
    async with superuser(store) as connection:
        return int(await connection.fetchval(f"SELECT count(*) FROM hourglass.{table}"))


async def end_all_keys(store: Store) -> None:
    async with superuser(store) as connection:
        await connection.execute("UPDATE hourglass.idempotency_keys SET expire_time = now() - interval '1 s'")


async def require_invariants(store: Store) -> None:
    async with superuser(store) as connection:
        assert {} == await broken(connection)


async def job_of(store: Store, run: Claimed) -> JobDetail:
    return await store.reader.get(
        TENANT, run.job_id, budget=time_enough(), with_attempts=True, with_content=True
    )


KEPT: Mapping[str, float] = dict.fromkeys(Lifetimes.__slots__, DAY)
ONE_CLASS = [
    pytest.param({}, {}, id="nothing"),
    pytest.param({"payload": 0.0}, {"payload": 1}, id="payload"),
    pytest.param({"payload": 0.0, "events": 0.0}, {"payload": 1, "events": 10}, id="events"),
    pytest.param(
        {"payload": 0.0, "events": 0.0, "result": 0.0}, {"payload": 1, "events": 10, "result": 1}, id="result"
    ),
    pytest.param({"payload": 0.0, "attempts": 0.0}, {"payload": 1, "attempts": 1}, id="attempts"),
]


@pytest.mark.parametrize(("short", "expected"), ONE_CLASS)
async def test_each_class_has_a_lifetime_of_its_own(
    store: Store, short: Mapping[str, float], expected: Mapping[str, int]
) -> None:
    await store.tenant()
    await store.succeeded()
    assert expected == await trim(store, Lifetimes(**{**KEPT, **short}))
    assert {} == await trim(store, Lifetimes(**{**KEPT, **short}))
    await require_invariants(store)


async def test_the_last_thing_to_go_is_the_job_and_its_money_stays_in_the_totals(store: Store) -> None:
    await store.tenant()
    run = await store.succeeded()
    before = await store.tenants.get(TENANT, budget=time_enough())
    await end_all_keys(store)
    await trim(store)
    await end_all_keys(store)
    await trim(store)
    with pytest.raises(JobNotFound):
        await job_of(store, run)
    for table in ("job_facts", "finished_jobs", "reservations", "attempts", "job_events", "idempotency_keys"):
        assert 0 == await rows_of(store, table)
    assert before == await store.tenants.get(TENANT, budget=time_enough())
    async with superuser(store) as connection:
        assert CHARGE == await connection.fetchval("SELECT archived_captured FROM hourglass.tenant_funds")
    await require_invariants(store)


async def test_nothing_of_an_unfinished_job_goes(store: Store) -> None:
    await store.tenant()
    await store.held()
    run = await store.running()
    await store.create()
    await end_all_keys(store)
    tables = ("job_payloads", "job_facts", "job_events", "reservations", "attempts", "idempotency_keys")
    before = [await rows_of(store, table) for table in tables]
    await trim(store)
    assert before == [await rows_of(store, table) for table in tables]
    assert JobDetail is type(await job_of(store, run))
    await require_invariants(store)


@pytest.mark.scenario("I2")
async def test_a_key_outlives_the_payload_of_its_job_and_the_job_outlives_its_key(store: Store) -> None:
    await store.tenant()
    job = new_job(key="one")
    await store.creation.create(replace(job, key=replace(job.key, lifetime=0.0)), budget=time_enough())
    known = await store.creation.find_key(TENANT, job.key.digest, budget=time_enough())
    assert known is not None
    assert job.job_id == known.job_id
    with pytest.raises(KeyTaken):
        await store.create(key="one")
    await store.cancellation.cancel(TENANT, job.job_id, principal="a", reason="", budget=time_enough())
    assert await store.creation.find_key(TENANT, job.key.digest, budget=time_enough()) is not None
    assert {"payload": 1, "events": 3, "keys": 1} == await trim(store)
    assert await store.creation.find_key(TENANT, job.key.digest, budget=time_enough()) is None
    assert {"jobs": 1} == await trim(store)
    assert job.job_id != await store.create(key="one")
    await require_invariants(store)


async def test_a_job_whose_payload_has_gone_cannot_be_retried(store: Store) -> None:
    await store.tenant()
    run = await store.failed()
    await trim(store, Lifetimes(**{**KEPT, "payload": 0.0}))
    with pytest.raises(ContentGone):
        await store.decisions.retry(decision_about(run.job_id), budget=time_enough())


async def test_a_log_that_has_gone_says_so_and_stays_gone_when_the_rest_is_erased(store: Store) -> None:
    await store.tenant()
    run = await store.succeeded()
    before = await store.reader.position(TENANT, run.job_id, budget=time_enough())
    assert not before.trimmed
    await trim(store, Lifetimes(**{**KEPT, "payload": 0.0, "events": 0.0}))
    after = await store.reader.position(TENANT, run.job_id, budget=time_enough())
    assert replace(before, trimmed=True) == after
    await store.decisions.erase(decision_about(run.job_id), budget=time_enough())
    assert after == await store.reader.position(TENANT, run.job_id, budget=time_enough())
    assert [] == await store.reader.events(TENANT, run.job_id, after=START, limit=9, budget=time_enough())
    await require_invariants(store)


async def test_a_log_loses_its_last_event_first(store: Store) -> None:
    await store.tenant()
    run = await store.succeeded()
    await trim(store, Lifetimes(**{**KEPT, "payload": 0.0}))
    await in_the_past(store)
    terms = RetentionTerms(lifetimes=NOW, interval=0.0, page_size=3, statements=3)
    await Retention(store.worker, policy_of, terms).trim(budget=time_enough())
    events = await store.reader.events(TENANT, run.job_id, after=START, limit=99, budget=time_enough())
    assert events
    assert (await store.reader.position(TENANT, run.job_id, budget=time_enough())).trimmed


async def test_a_tenant_may_have_lifetimes_of_its_own(store: Store) -> None:
    for tenant in (TENANT, OTHER):
        await store.tenant(tenant)
        await store.succeeded(tenant=tenant)
    async with superuser(store) as connection:
        await connection.execute(
            "UPDATE hourglass.tenants SET retention = $2 WHERE tenant_id = $1", OTHER, dump({"payload": 0})
        )
    assert {"payload": 1} == await trim(store, Lifetimes(**KEPT))
    async with superuser(store) as connection:
        assert [TENANT] == [
            row["tenant_id"] for row in await connection.fetch("SELECT tenant_id FROM hourglass.job_payloads")
        ]


@pytest.mark.parametrize("nonsense", [{"payload": -1}, {"payload": 3 * DAY}, {"soup": 1}, {"payload": "x"}])
async def test_of_a_tenant_whose_lifetimes_make_no_sense_nothing_goes(
    store: Store, nonsense: dict[str, Any]
) -> None:
    await store.tenant()
    await store.tenant(OTHER)
    await store.succeeded()
    async with superuser(store) as connection:
        await connection.execute(
            "UPDATE hourglass.tenants SET retention = $2 WHERE tenant_id = $1", TENANT, dump(nonsense)
        )
    assert {} == await trim(store, Lifetimes(**{**KEPT, "payload": 0.0, "events": 0.0}))


async def test_calls_go_when_they_are_settled_and_their_money_stays_in_the_totals(store: Store) -> None:
    await store.tenant()
    async with superuser(store) as connection:
        for captured, settled in ((Decimal("0.25"), True), (Decimal(0), False)):
            await connection.execute(
                "INSERT INTO hourglass.calls (tenant_id, id, principal, model, lane, create_time, deadline, "
                "price_version, amount, captured, released, settle_time, outcome, cause, worst_case) "
                "VALUES ($1, $2, 'a', 'm', 'l', now(), now(), '1', 1, $3::numeric, "
                "CASE WHEN $4 THEN 1 - $3::numeric ELSE 0 END, CASE WHEN $4 THEN now() END, "
                "CASE WHEN $4 THEN 'FAILED' END, CASE WHEN $4 THEN 'X' END, 1)",
                TENANT, new_call_id(), captured, settled,
            )  # fmt: skip
    assert {"calls": 1} == await trim(store)
    async with superuser(store) as connection:
        assert Decimal("0.25") == await connection.fetchval(
            "SELECT archived_captured FROM hourglass.tenant_funds"
        )
        assert await connection.fetchval("SELECT settle_time IS NULL FROM hourglass.calls")


async def test_quotes_that_can_be_used_and_audit_rows_of_no_tenant(store: Store) -> None:
    await store.tenant()
    async with superuser(store) as connection:
        for left in ("1 hour", "-1 hour"):
            await connection.execute(
                "INSERT INTO hourglass.quotes "
                "VALUES ($1, $2, 'a', now(), now() + $3::text::interval, 1, 1, '[]')",
                TENANT, new_quote_id(), left,
            )  # fmt: skip
        for tenant in (TENANT, "*"):
            await connection.execute(
                "INSERT INTO hourglass.audit_log (tenant_id, id, action, actor, subject) "
                "VALUES ($1, $2, 'X', 'a', 'lane:l')",
                tenant, new_quote_id(),
            )  # fmt: skip
    audits = await rows_of(store, "audit_log")
    assert {"quotes": 1, "audit": audits} == await trim(store, replace(NOW, audit=0.0))
    assert 1 == await rows_of(store, "quotes")


async def test_all_processes_share_one_pass(store: Store) -> None:
    names = [TenantId(f"tenant-{number}") for number in range(12)]
    for name in names:
        await store.tenant(name, funds=Decimal(1))
        await store.succeeded(tenant=name)
    await in_the_past(store)
    terms = RetentionTerms(lifetimes=NOW, interval=3600.0, tenants=2, statements=1000)
    retentions = [Retention(store.worker, policy_of, terms) for _ in range(3)]
    rows = Counter[str]()
    for _ in range(4):
        for trimmed in await asyncio.gather(*(each.trim(budget=time_enough()) for each in retentions)):
            rows.update(trimmed.rows)
    assert (12, 12) == (rows["payload"], rows["result"])
    assert {} == (await retentions[0].trim(budget=time_enough())).rows
    await require_invariants(store)


async def test_what_somebody_has_locked_is_not_waited_for(store: Store) -> None:
    await store.tenant()
    busy, free = await store.succeeded(), await store.succeeded()
    async with superuser(store) as connection, connection.transaction():
        await connection.fetch(
            "SELECT FROM hourglass.finished_jobs WHERE id = $1 FOR NO KEY UPDATE", busy.job_id
        )
        assert 1 == (await trim(store))["payload"]
    assert (await job_of(store, free)).content is not None
    assert 1 == (await trim(store))["payload"]


OLD_WEEK = """
    DO $$
    DECLARE parent text;
    BEGIN
        FOR parent IN SELECT c.relname FROM pg_partitioned_table p JOIN pg_class c ON c.oid = p.partrelid LOOP
            EXECUTE format('CREATE TABLE hourglass.%I PARTITION OF hourglass.%I FOR VALUES FROM (%L) TO (%L)',
                           parent || '_2020w10', parent, hourglass.first_id_of('2020-03-02T00:00Z'),
                           hourglass.first_id_of('2020-03-09T00:00Z'));
        END LOOP;
    END
    $$
"""
OLD_JOB = """
    INSERT INTO hourglass.job_facts
    SELECT (jsonb_populate_record(f, jsonb_build_object('id', hourglass.first_id_of('2020-03-03T00:00Z')))).*
    FROM hourglass.job_facts f
"""


async def old_partitions(store: Store) -> set[str]:
    async with superuser(store) as connection:
        rows = await connection.fetch("SELECT relname FROM pg_class WHERE relname ~ '_2020w10$'")
    return {row["relname"].removesuffix("_2020w10") for row in rows}


async def test_partitions_of_a_week_that_is_over_and_empty_are_dropped(store: Store) -> None:
    await store.tenant()
    before = await old_partitions(store)
    async with superuser(store) as connection:
        await connection.execute(OLD_WEEK)
    weeks = len(await old_partitions(store))
    assert (set(), True) == (before, weeks > 0)
    assert weeks == (await trim(store, Lifetimes(**KEPT)))["partitions"]
    assert set() == await old_partitions(store)
    await store.create()


async def test_as_long_as_a_job_of_a_week_is_left_what_it_may_write_has_its_partition(store: Store) -> None:
    await store.tenant()
    await store.create()
    async with superuser(store) as connection:
        await connection.execute(OLD_WEEK)
        await connection.execute(OLD_JOB)
    await trim(store, Lifetimes(**KEPT))
    assert {
        "job_facts", "finished_jobs", "attempts", "job_events", "job_results", "reservations", "overruns",
    } == await old_partitions(store)  # fmt: skip


async def crowd(store: Store, **counts: int) -> None:
    """Very many jobs of a hundred tenants, made within the last six days."""
    sql = CROWD.read_text()
    for name, count in counts.items():
        sql = sql.replace(f":{name}", str(count))
    async with superuser(store) as connection:
        await connection.execute("DELETE FROM hourglass.lanes")
        await connection.execute(sql)


@pytest.mark.timeout(240)
@pytest.mark.scenario("D3")
@pytest.mark.faults
async def test_fifty_thousand_old_jobs_go_in_bounded_statements(store: Store) -> None:
    finished = 50_000
    await crowd(store, finished=finished, queued=1000, running=100)
    async with superuser(store) as connection:
        captured = "UPDATE hourglass.tenant_funds SET captured = 5, available = available - 5"
        await connection.execute(captured)
    rows = await trim(store, page_size=1000)
    assert {"events": finished, "attempts": finished, "jobs": finished} == rows
    async with superuser(store) as connection:
        assert [Decimal(5)] * 100 == [
            row[0] for row in await connection.fetch("SELECT archived_captured FROM hourglass.tenant_funds")
        ]
        left = "SELECT count(*) FROM hourglass.reservations WHERE settle_time IS NULL"
        assert 1100 == await connection.fetchval(left) == await rows_of(store, "job_facts")


async def claim_times(store: Store, *, until: asyncio.Event, least: int) -> list[float]:
    """Milliseconds of claims, one after the other, each rolled back."""
    took: list[float] = []
    connection: Connection = await asyncpg.connect(store.database.worker)
    try:
        while len(took) < least or not until.is_set():
            transaction = connection.transaction()
            await transaction.start()
            begun = time.perf_counter()
            rows = await connection.fetch(statement("claim_jobs"), *CLAIM)
            took.append((time.perf_counter() - begun) * 1000)
            await transaction.rollback()
            assert rows
    finally:
        await connection.close()
    return sorted(took)


@pytest.mark.faults
@pytest.mark.timeout(600)
@pytest.mark.scenario("D3")
async def test_claims_are_as_quick_while_very_many_jobs_are_trimmed(
    store: Store, record_property: Callable[[str, object], None]
) -> None:
    await crowd(store, finished=200_000, queued=10_000, running=1000)
    trimming = asyncio.Event()
    trimming.set()
    alone = await claim_times(store, until=trimming, least=200)
    trimming.clear()
    beside = asyncio.create_task(claim_times(store, until=trimming, least=200))
    rows = await trim(store)
    trimming.set()
    during = await beside
    p99 = [times[int(0.99 * len(times))] for times in (alone, during)]
    record_property("claim_p99_milliseconds", p99)
    logging.getLogger(__name__).info("p99 of claims, alone and during: %.1f and %.1f ms", *p99)
    assert 200_000 == rows["jobs"]
    assert p99[1] <= max(5 * p99[0], 100.0), p99
