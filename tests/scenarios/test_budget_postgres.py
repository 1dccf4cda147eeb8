"""Postgres that is blocked, silent or gone while requests wait for it."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from random import Random
from typing import Any

import asyncpg
import pytest
from grpc import StatusCode

from hourglass.jobs.v1 import jobs_service_pb2 as pb
from tests.jobs import TENANT, of
from tests.postgres import TestDatabase
from tests.scenarios.stage import Stage, Told, staged, told
from tests.waiting import eventually

LIMIT = 0.4
PRODUCTION = '{"pricing": {"limit": 5}}'
"""SQL has the limits that it has in production."""


@asynccontextmanager
async def locked(database: TestDatabase, table: str) -> AsyncIterator[None]:
    """Another session holds a table."""
    connection = await asyncpg.connect(database.owner)
    try:
        await connection.execute(f"BEGIN; LOCK TABLE hourglass.{table} IN ACCESS EXCLUSIVE MODE")
        yield
        await connection.execute("ROLLBACK")
    finally:
        await connection.close()


def overlong(answers: Sequence[Told]) -> list[Any]:
    """Spends that took far more than their limit. (How closely it is kept on a quiet machine is a figure of
    the bench.)"""
    return [
        spend
        for answer in answers
        for spend in answer.ledger.spends
        if spend.dependency == "postgres" and spend.took > 2 * LIMIT
    ]


@pytest.mark.scenario("B2")
async def test_a_locked_table_costs_each_caller_its_limit_and_the_pool_is_whole_at_once_afterwards(
    database: TestDatabase,
) -> None:
    async with staged(database, policies=PRODUCTION, admission=False) as stage:
        async with locked(database, "jobs"):
            calls = [told(stage.create(f"k{number}", timeout=4.0)) for number in range(40)]
            answers = await asyncio.gather(*calls)
            answered = time.monotonic()
            await eventually(lambda: _none_active(stage), within=1.0)
            idle_after = time.monotonic() - answered
            await eventually(stage.pool_is_whole, within=1.0)

        assert {("UNAVAILABLE", "DATABASE_TIMEOUT")} == {_kind(answer) for answer in answers}
        assert [] == overlong(answers)
        assert idle_after < 0.5, "a quarter of a second, and what asking Postgres takes here"
        await eventually(lambda: _is_created(stage, "k0"), within=1.0)
        assert stage.pool_is_whole()
        for number in range(1, 8):
            await eventually(partial(_is_created, stage, f"k{number}"), within=2.0)
        await stage.assert_money_agrees()
        assert 8 == await stage.jobs.count("job_facts")


async def _is_created(stage: Stage, key: str) -> bool:
    return (await told(stage.create(key))).failure is None


@pytest.mark.faults
@pytest.mark.scenario("O6")
async def test_a_thousand_calls_cancelled_while_they_wait_for_a_connection_leave_the_pool_whole(
    database: TestDatabase,
) -> None:
    random = Random(6)
    async with staged(database, pool_size=2, admission=False) as stage:
        job_id = (await stage.create("k1")).job.job_id
        database_pool = stage.jobs.app.databases.request
        waited = 0
        async with locked(database, "job_facts"):
            for _ in range(10):
                calls = [
                    stage.jobs.jobs.GetJob(_get(job_id), timeout=20, metadata=of(TENANT)) for _ in range(100)
                ]
                await eventually(lambda: database_pool.waiting >= 90, within=10)
                waited += database_pool.waiting
                random.shuffle(calls)
                for call in calls:
                    call.cancel()
                await asyncio.gather(*(_ended(call) for call in calls))
                await eventually(lambda: database_pool.waiting == 0, within=5)
        assert waited >= 900, "they were cancelled while they waited"
        await eventually(stage.pool_is_whole, within=2)
        await eventually(lambda: _none_active(stage), within=2)
        assert len(await stage.sessions()) <= 2
        again = await asyncio.gather(
            *(told(stage.jobs.jobs.GetJob(_get(job_id), metadata=of(TENANT))) for _ in range(20))
        )
        assert {""} == {answer.reason for answer in again}


async def _none_active(stage: Stage) -> bool:
    return await stage.active() == 0


async def _ended(call: Any) -> None:
    with pytest.raises(asyncio.CancelledError):
        await call


def _get(job_id: str) -> pb.GetJobRequest:
    return pb.GetJobRequest(job_id=job_id)


def _kind(answer: Told) -> tuple[str, str]:
    assert answer.failure is not None
    return answer.failure.code.name, answer.reason


@asynccontextmanager
async def waiting_for_its_price(stage: Stage, key: str, timeout: float) -> AsyncIterator[Any]:
    """A create that has looked for its key and waits for pricing; its next COMMIT is its own."""
    stage.to_pricing.freeze()
    call = stage.create(key, timeout=timeout)
    await eventually(lambda: stage.to_pricing.open)
    await eventually(lambda: _asks_for_its_price(stage))
    yield call


async def _asks_for_its_price(stage: Stage) -> bool:
    return any(session["query"] == "COMMIT" for session in await stage.sessions()) and stage.pool_is_whole()


@pytest.mark.scenario("B9")
@pytest.mark.parametrize("leaves", ["deadline", "cancel"])
async def test_a_commit_whose_answer_does_not_come_in_time_is_found_out_by_the_same_key(
    database: TestDatabase, leaves: str
) -> None:
    """It was committed: the job exists once, and the caller who asks again gets it."""
    async with staged(database, policies='{"postgres": {"limit": 5}, "pricing": {"limit": 5}}') as stage:
        await stage.create("warm")
        async with waiting_for_its_price(stage, "k1", 1.5) as call:
            stage.to_postgres.when(b"COMMIT", stage.to_postgres.withhold)
            stage.to_pricing.flow()
            await eventually(lambda: _facts(stage, 2))
            if leaves == "cancel":
                call.cancel()
                await _ended(call)
            else:
                answer = await told(call)
                assert answer.failure is not None
                assert (StatusCode.UNAVAILABLE, "COMMIT_OUTCOME_UNKNOWN") == answer.failure.kind
            stage.to_postgres.flow()

        again = await stage.create("k1")
        assert again.replayed
        assert 2 == await stage.jobs.count("job_facts")
        await stage.assert_money_agrees()
        await eventually(stage.pool_is_whole)


@pytest.mark.scenario("B9")
async def test_a_commit_that_never_arrived_left_nothing_and_the_same_key_makes_the_job(
    database: TestDatabase,
) -> None:
    async with staged(database, policies='{"postgres": {"limit": 5}, "pricing": {"limit": 5}}') as stage:
        await stage.create("warm")
        async with waiting_for_its_price(stage, "k1", 1.5) as call:
            stage.to_postgres.when(b"COMMIT", stage.to_postgres.freeze)
            stage.to_pricing.flow()
            await eventually(lambda: not stage.to_postgres.armed)
            stage.to_postgres.sever()
            stage.to_postgres.flow()
            answer = await told(call)
        assert answer.failure is not None
        assert (StatusCode.UNAVAILABLE, "COMMIT_OUTCOME_UNKNOWN") == answer.failure.kind
        assert 1 == await stage.jobs.count("job_facts")

        again = await stage.create("k1")
        assert not again.replayed
        assert 2 == await stage.jobs.count("job_facts")
        await stage.assert_money_agrees()


async def _facts(stage: Stage, count: int) -> bool:
    return await stage.jobs.count("job_facts") == count
