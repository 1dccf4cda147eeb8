"""A run that lost its job changes nothing of it: every write is fenced by the token under the row's lock."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal

import asyncpg
import pytest

from budget.postgres import Transaction
from jobs_store.attempts import ZERO, ProviderCost
from jobs_store.endings import Due, Fence, Return, Verdict, requeue_jobs
from jobs_store.events import attempt_ended, state_changed
from jobs_store.identifiers import START, epoch_of
from jobs_store.new_job import SPEC_VERSION
from jobs_store.runs import Claimed
from jobs_store.statements import statement
from jobs_store.states import AttemptOutcome, Cause, CostBasis, ErrorClass, JobState
from tests.integration.store.invariants import broken
from tests.integration.store.locks import Connection, superuser, until_waiting
from tests.store import (
    CHARGE,
    LANE,
    LEASE,
    OVER,
    TENANT,
    WORST_CASE,
    Store,
    acceptance_of,
    cancelled_end_of,
    deltas_of,
    failed,
    failure_of,
    policy_of,
    release_of,
    return_of,
    succeeded,
    time_enough,
    token_of,
    unknown,
)

pytestmark = pytest.mark.every_postgres

Write = Callable[[Store, Claimed], Awaitable[Verdict]]


async def start(store: Store, run: Claimed) -> Verdict:
    return (await store.start(run))[0].verdict


async def append(store: Store, run: Claimed) -> Verdict:
    return (await store.runs.append([deltas_of(run, "zombie")], budget=time_enough()))[0]


async def accept(store: Store, run: Claimed) -> Verdict:
    return (await store.runs.finish([acceptance_of(run)], budget=time_enough()))[0].verdict


async def fail(store: Store, run: Claimed) -> Verdict:
    return (await store.runs.finish([failure_of(run)], budget=time_enough()))[0].verdict


async def end_cancelled(store: Store, run: Claimed) -> Verdict:
    return (await store.runs.finish([cancelled_end_of(run)], budget=time_enough()))[0].verdict


async def requeue(store: Store, run: Claimed) -> Verdict:
    return (await store.runs.requeue([return_of(run)], budget=time_enough()))[0].verdict


async def renew(store: Store, run: Claimed) -> Verdict:
    return (await store.runs.renew([token_of(run)], lease=LEASE, budget=time_enough()))[0]


WAITING_WRITES = [start, append, accept, fail, end_cancelled, requeue]
WRITES = [*WAITING_WRITES, renew]
named = pytest.mark.parametrize("write", WRITES, ids=lambda write: write.__name__)


async def everything(connection: Connection) -> list[list[asyncpg.Record]]:
    """All that a zombie could damage."""
    return [
        await connection.fetch(f"SELECT * FROM hourglass.{table} ORDER BY {order}")
        for table, order in {
            "jobs": "id",
            "finished_jobs": "id",
            "attempts": "job_id, number",
            "job_events": "job_id, sequence",
            "job_results": "id",
            "reservations": "job_id, number",
            "lanes": "lane",
            "tenant_limits": "tenant_id",
            "tenant_funds": "tenant_id",
        }.items()
    ]


def takeover_of(run: Claimed) -> Return:
    """What the reaper does about a run that was sent."""
    end = unknown()
    return Return(
        fence=Fence(tenant=run.tenant, job_id=run.job_id, token=run.token, due=Due.LEASE, was_sent=True),
        state=JobState.QUEUED,
        cause=Cause.UNKNOWN_OUTCOME,
        delay=0.0,
        events=(*attempt_ended(end), state_changed(JobState.QUEUED, Cause.UNKNOWN_OUTCOME)),
        attempt=end,
    )


async def take_over(transaction: Transaction, zombie: Claimed) -> None:
    """Requeue and claim again in one transaction, so that both commit at one moment."""
    (ended,) = await requeue_jobs(transaction, [takeover_of(zombie)])
    assert Verdict.OK == ended.verdict
    claimed = await transaction.fetch(
        statement("claim_jobs"), [LANE], SPEC_VERSION, 1, "worker-2", "127.0.0.1:50052", LEASE, "", 10, 0, 1
    )
    assert [zombie.job_id] == [row["id"] for row in claimed]


@asynccontextmanager
async def taken_over(store: Store, zombie: Claimed) -> AsyncIterator[None]:
    """Worker B has the job, but its commit comes at the end of the block."""
    policy = policy_of("take_over")
    async with store.worker.transaction(time_enough(), policy) as transaction:
        await take_over(transaction, zombie)
        yield


@named
@pytest.mark.scenario("L3")
async def test_a_zombie_hits_nothing_after_the_takeover(store: Store, write: Write) -> None:
    await store.tenant()
    zombie = await store.running(lease=OVER)
    async with taken_over(store, zombie):
        pass
    async with superuser(store) as connection:
        before = await everything(connection)
        assert Verdict.LEASE_LOST == await write(store, zombie)
        assert before == await everything(connection)


@pytest.mark.parametrize("write", WAITING_WRITES, ids=lambda write: write.__name__)
@pytest.mark.scenario("L3")
async def test_a_zombie_whose_write_began_before_the_takeover_committed_hits_nothing(
    store: Store, write: Write
) -> None:
    await store.tenant()
    zombie = await store.running(lease=OVER)
    async with superuser(store) as connection:
        async with taken_over(store, zombie):
            writing = asyncio.ensure_future(write(store, zombie))
            await until_waiting(connection)
            assert not writing.done()
        assert Verdict.LEASE_LOST == await writing
        running = await store.runs.outcome_of(token_of(zombie), 2, budget=time_enough())
        assert running is None
        assert [] == await connection.fetch("SELECT FROM hourglass.job_events WHERE text = 'zombie'")
        assert 1 == await connection.fetchval("SELECT running FROM hourglass.tenant_limits")
        assert 2 == await connection.fetchval("SELECT attempt_number FROM hourglass.jobs")


@pytest.mark.parametrize("write", WAITING_WRITES, ids=lambda write: write.__name__)
@pytest.mark.scenario("L3")
async def test_who_waits_behind_the_takeover_for_a_third_ones_lock_hits_nothing(
    store: Store, write: Write
) -> None:
    await store.tenant()
    zombie = await store.running(lease=OVER)
    async with superuser(store) as watching:
        async with superuser(store) as third, third.transaction():
            await third.fetch("SELECT FROM hourglass.jobs FOR NO KEY UPDATE")
            taking = asyncio.ensure_future(store.runs.requeue([takeover_of(zombie)], budget=time_enough()))
            await until_waiting(watching)
            writing = asyncio.ensure_future(write(store, zombie))
            await until_waiting(watching, count=2)
        assert Verdict.OK == (await taking)[0].verdict
        assert Verdict.LEASE_LOST == await writing
        assert 0 == await watching.fetchval("SELECT running FROM hourglass.tenant_limits")


async def test_renewal_never_waits_and_is_lost_only_when_the_token_is_gone(store: Store) -> None:
    await store.tenant()
    zombie = await store.running(lease=OVER)
    async with taken_over(store, zombie):
        assert Verdict.BUSY == await renew(store, zombie)
    assert Verdict.LEASE_LOST == await renew(store, zombie)


@pytest.mark.scenario("L10")
async def test_a_busy_row_delays_no_other_renewal(store: Store) -> None:
    await store.tenant()
    busy, free = await store.running(), await store.running()
    async with superuser(store) as connection, connection.transaction():
        await connection.fetch("SELECT FROM hourglass.jobs WHERE id = $1 FOR NO KEY UPDATE", busy.job_id)
        runs = [token_of(busy), token_of(free)]
        assert [Verdict.BUSY, Verdict.OK] == await store.runs.renew(runs, lease=LEASE, budget=time_enough())


@pytest.mark.scenario("L10")
async def test_an_acceptance_that_waits_for_funds_delays_no_other_renewal(store: Store) -> None:
    await store.tenant()
    ending, other = await store.running(), await store.running()
    async with superuser(store) as watching:
        async with superuser(store) as connection, connection.transaction():
            await connection.fetch("SELECT FROM hourglass.tenant_funds FOR NO KEY UPDATE")
            accepting = asyncio.ensure_future(accept(store, ending))
            await until_waiting(watching)
            runs = [token_of(ending), token_of(other)]
            answers = await store.runs.renew(runs, lease=LEASE, budget=time_enough())
            assert [Verdict.BUSY, Verdict.OK] == answers
        assert Verdict.OK == await accepting


@pytest.mark.scenario("L9")
async def test_the_lease_is_not_the_fence_until_somebody_takes_over(store: Store) -> None:
    await store.tenant()
    late = await store.running(lease=OVER)
    assert Verdict.OK == await renew(store, late)
    assert Verdict.OK == await append(store, late)
    assert Verdict.OK == await accept(store, late)


async def test_a_renewed_run_is_not_taken_over_by_a_reaper_that_saw_it_expired(store: Store) -> None:
    await store.tenant()
    run = await store.running(lease=OVER)
    await renew(store, run)
    (ended,) = await store.runs.requeue([takeover_of(run)], budget=time_enough())
    assert Verdict.NOT_DUE == ended.verdict


async def test_a_run_that_was_sent_meanwhile_is_not_taken_over_as_not_sent(store: Store) -> None:
    await store.tenant()
    await store.create()
    run = await store.claim_one(lease=OVER)
    fence = Fence(tenant=run.tenant, job_id=run.job_id, token=run.token, due=Due.LEASE, was_sent=False)
    seen = release_of(run)
    await store.start(run)
    unsent = Return(
        fence=fence,
        state=seen.state,
        cause=Cause.CRASHED_BEFORE_SEND,
        delay=0.0,
        events=seen.events,
        attempt=seen.attempt,
        crashed=True,
    )
    (ended,) = await store.runs.requeue([unsent], budget=time_enough())
    assert Verdict.NOT_DUE == ended.verdict


@pytest.mark.scenario("L4")
async def test_a_slot_is_freed_once_when_reaper_and_late_finish_meet(store: Store) -> None:
    await store.tenant(max_running=1)
    async with superuser(store) as connection:
        for _ in range(20):
            run = await store.running(lease=OVER)
            _, verdict = await asyncio.gather(store.reaper.reap(budget=time_enough()), accept(store, run))
            assert 0 == await connection.fetchval("SELECT running FROM hourglass.tenant_limits")
            assert 0 == await connection.fetchval("SELECT running FROM hourglass.lanes")
            assert verdict in {Verdict.OK, Verdict.LEASE_LOST}
            if verdict is Verdict.LEASE_LOST:
                assert Verdict.OK == await accept(store, await store.claim_one())
        assert 20 == await connection.fetchval("SELECT count(*) FROM hourglass.job_results")


@pytest.mark.scenario("L3")
async def test_a_zombie_writes_its_own_cost_and_nothing_else(store: Store) -> None:
    await store.tenant()
    zombie = await store.running(lease=OVER)
    async with taken_over(store, zombie):
        pass
    run = token_of(zombie)
    assert await store.runs.record_lost_attempt(run, 1, succeeded(), budget=time_enough())
    assert not await store.runs.record_lost_attempt(run, 2, succeeded(), budget=time_enough())
    detail = await store.reader.get(TENANT, zombie.job_id, budget=time_enough(), with_attempts=True)
    (attempt,) = detail.attempts
    assert (AttemptOutcome.UNKNOWN, CostBasis.REPORTED) == (attempt.end.outcome, attempt.end.cost.basis)
    assert JobState.RUNNING == detail.job.state
    assert (ZERO, CHARGE) == (detail.job.captured, detail.job.cost.amount)


async def test_what_a_zombie_tells_of_its_cost_counts_for_the_next_attempt(store: Store) -> None:
    """Known now, so the worst case of the attempt stands in nobody's way any more."""
    await store.tenant()
    zombie = await store.running(lease=OVER)
    async with taken_over(store, zombie):
        pass
    assert (ZERO, WORST_CASE) == await spent(store, zombie)
    assert await store.runs.record_lost_attempt(token_of(zombie), 1, succeeded(), budget=time_enough())
    assert (CHARGE, ZERO) == await spent(store, zombie)
    assert await store.runs.tally(token_of(zombie), budget=time_enough()) is None
    async with superuser(store) as connection:
        assert {} == await broken(connection)


async def test_a_zombie_whose_call_was_refused_tells_that_it_cost_nothing(store: Store) -> None:
    await store.tenant()
    zombie = await store.running(lease=OVER)
    async with taken_over(store, zombie):
        pass
    refused = failed(ErrorClass.PERMANENT)
    assert ProviderCost.nothing() == refused.cost
    assert await store.runs.record_lost_attempt(token_of(zombie), 1, refused, budget=time_enough())
    assert (ZERO, ZERO) == await spent(store, zombie)
    async with superuser(store) as connection:
        assert {} == await broken(connection)


async def spent(store: Store, run: Claimed) -> tuple[Decimal, Decimal]:
    """What the job's attempts cost, known and at worst, as whoever runs it now is told."""
    async with superuser(store) as connection:
        token = await connection.fetchval("SELECT run_token FROM hourglass.jobs WHERE id = $1", run.job_id)
    held = replace(token_of(run), token=token)
    tally = await store.runs.tally(held, budget=time_enough())
    assert tally is not None
    return tally.known_cost, tally.unknown_cost


@pytest.mark.scenario("L8")
async def test_every_claim_has_a_token_and_an_attempt_number_never_seen_before(store: Store) -> None:
    await store.tenant()
    await store.create()
    seen = [await store.claim_one()]
    await store.runs.requeue([release_of(seen[-1])], budget=time_enough())
    seen.append(await store.claim_one(lease=OVER))
    await store.reaper.reap(budget=time_enough())
    seen.append(await store.claim_one())
    await store.start(seen[-1])
    await store.runs.requeue([return_of(seen[-1])], budget=time_enough())
    seen.append(await store.claim_one())
    assert 4 == len({run.token for run in seen})
    assert [1, 2, 3, 4] == [run.attempt_number for run in seen]
    epochs = [run.epoch for run in seen]
    assert epochs == sorted(set(epochs))


async def test_what_was_flushed_while_the_takeover_waited_is_named_as_durable(store: Store) -> None:
    await store.tenant()
    run = await store.running(lease=OVER)
    async with superuser(store) as watching:
        async with superuser(store) as third, third.transaction():
            await third.fetch("SELECT FROM hourglass.jobs FOR NO KEY UPDATE")
            flushing = asyncio.ensure_future(append(store, run))
            await until_waiting(watching)
            taking = asyncio.ensure_future(store.runs.requeue([takeover_of(run)], budget=time_enough()))
            await until_waiting(watching, count=2)
        assert (Verdict.OK, Verdict.OK) == (await flushing, (await taking)[0].verdict)
    events = await store.reader.events(TENANT, run.job_id, after=START, limit=100, budget=time_enough())
    boundary = next(at for at, event in enumerate(events) if epoch_of(event.sequence) > run.epoch)
    assert "zombie" == events[boundary - 1].text
    assert events[boundary - 1].sequence == events[boundary].attributes["last_durable_sequence"]
