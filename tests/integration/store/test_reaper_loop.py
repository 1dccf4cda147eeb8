"""The reaper's loop: its pace, its company, and the database's outages."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import asyncpg
import pytest

from budget.core import Budget
from budget.postgres import Database, DatabaseLimits
from jobs_store.decisions import RetryTiming
from jobs_store.endings import Verdict
from jobs_store.identifiers import JobId
from jobs_store.reaper import Reaped, Reaper
from jobs_store.reaper_loop import ReaperLoop, ReaperPace, Round
from jobs_store.states import JobState
from servicekit.lifecycle import Loops, background_loops
from tests.chaos_proxy import ChaosProxy
from tests.postgres import TestDatabase
from tests.proxied import proxy_to, through
from tests.store import OVER, TENANT, Store, policy_of, time_enough, token_of
from tests.waiting import eventually

pytestmark = pytest.mark.every_postgres

GRACE = 5.0
NEVER = 3600.0
INTERVAL = 0.05
PACE = ReaperPace(interval=INTERVAL, round=2.0, reconnect_wait=0.0, partitions_retry=INTERVAL)
OUTAGE_LIMITS = DatabaseLimits(cancel=0.1, clean_up=0.2, connect=0.2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A round, and when it began."""

    began: float
    round: Round


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """What a loop reports, and the database that it works on."""

    database: Database
    seen: list[Seen] = field(default_factory=list)

    def observe(self, finished: Round) -> None:
        self.seen.append(Seen(began=time.monotonic() - finished.took, round=finished))

    @property
    def all(self) -> list[Round]:
        return [each.round for each in self.seen]

    @property
    def good(self) -> list[Seen]:
        return [each for each in self.seen if not each.round.reason]

    @property
    def taken_over(self) -> int:
        return sum(each.taken_over for each in self.all)

    def closest(self) -> float:
        """The least time from one round's beginning to the next one's."""
        return min(later.began - earlier.began for earlier, later in pairwise(self.seen))


class StuckReaper(Reaper):
    """Finds a full page, again and again, and can move none of it."""

    async def reap(self, *, budget: Budget) -> Reaped:
        return Reaped(taken_over=0, expired=0, hold_ended=0, more=True)


@pytest.fixture
async def loops() -> AsyncIterator[Loops]:
    """Background loops as in a service; one that crashes fails the test."""
    async with background_loops(grace=GRACE) as running:
        yield running


@pytest.fixture
async def operator(database: TestDatabase) -> AsyncIterator["asyncpg.Connection[Any]"]:
    """A session beside everything that is tested."""
    connection = await asyncpg.connect(database.owner)
    yield connection
    await connection.close()


@pytest.fixture
async def proxy(database: TestDatabase) -> AsyncIterator[ChaosProxy]:
    async with proxy_to(database.owner) as running:
        yield running


def loop_of(reaper: Reaper, rounds: Rounds, pace: ReaperPace = PACE) -> ReaperLoop:
    return ReaperLoop(
        reaper, rounds.database, policy_of, jitter=lambda _: 0.0, pace=pace, observe=rounds.observe
    )


@asynccontextmanager
async def reaping(
    dsn: str, loops: Loops, pace: ReaperPace = PACE, page_size: int = 100
) -> AsyncIterator[Rounds]:
    """A process that reaps, with a database pool of its own."""
    database = await Database.open(
        dsn, budget=time_enough(), size=2, application_name="reaper", limits=OUTAGE_LIMITS
    )
    reaper = Reaper(
        database,
        policy_of,
        timing=RetryTiming(backoff_base=0.0),
        jitter=lambda most: most,
        page_size=page_size,
    )
    rounds = Rounds(database=database)
    loop = loop_of(reaper, rounds, pace)
    loops.start("reaper", loop.run)
    try:
        yield rounds
    finally:
        await loops.stop(GRACE)
        await database.close(time_enough())


async def expired_runs(store: Store, number: int) -> list[JobId]:
    for _ in range(number):
        await store.create()
    claimed = await store.claim(number, lease=OVER)
    await store.start(*claimed)
    assert number == len(claimed)
    return [run.job_id for run in claimed]


async def state_of(store: Store, job_id: JobId) -> JobState:
    detail = await store.reader.get(TENANT, job_id, budget=time_enough())
    return detail.job.state


def is_in(store: Store, job_id: JobId, state: JobState) -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        return state == await state_of(store, job_id)

    return check


async def test_runs_that_nobody_hears_of_are_taken_over_and_reported(
    store: Store, database: TestDatabase, loops: Loops
) -> None:
    await store.tenant()
    (job_id,) = await expired_runs(store, 1)
    async with reaping(database.worker, loops) as rounds:
        await eventually(is_in(store, job_id, JobState.QUEUED))
        await eventually(lambda: rounds.taken_over)
    first = rounds.all[0]
    assert first.oldest_lease >= -OVER
    assert Round(taken_over=1, took=0.0) == replace(first, oldest_lease=0.0, snapshot=None, took=0.0)
    assert first.took > 0


async def test_rounds_keep_their_interval_while_there_is_nothing_to_do(
    store: Store, database: TestDatabase, loops: Loops
) -> None:
    async with reaping(database.worker, loops) as rounds:
        await eventually(lambda: len(rounds.seen) >= 5)
    assert rounds.closest() >= INTERVAL
    assert {(0, 0, 0, "")} == {(r.taken_over, r.expired, r.hold_ended, r.reason) for r in rounds.all}


async def test_full_pages_follow_each_other_at_once(
    store: Store, database: TestDatabase, loops: Loops
) -> None:
    await store.tenant()
    await expired_runs(store, 7)
    pace = replace(PACE, interval=NEVER)
    async with reaping(database.worker, loops, pace, page_size=2) as rounds:
        await eventually(lambda: rounds.taken_over == 7)
    assert [2, 2, 2, 1] == [each.taken_over for each in rounds.all]


async def test_a_full_page_of_which_nothing_moves_is_not_asked_for_again_at_once(
    store: Store, loops: Loops
) -> None:
    rounds = Rounds(database=store.worker)
    stuck = StuckReaper(store.worker, policy_of, timing=RetryTiming(), jitter=lambda _: 0.0, page_size=1)
    loops.start("reaper", loop_of(stuck, rounds).run)
    await eventually(lambda: len(rounds.seen) >= 4)
    assert rounds.closest() >= INTERVAL


async def test_two_reaping_processes_take_each_run_over_once(
    store: Store, database: TestDatabase, loops: Loops
) -> None:
    await store.tenant()
    jobs = await expired_runs(store, 40)
    async with (
        reaping(database.worker, loops, page_size=3) as one,
        reaping(database.worker, loops, page_size=3) as other,
    ):
        await eventually(lambda: one.taken_over + other.taken_over == len(jobs))
        await eventually(lambda: one.all[-1].taken_over == 0 and other.all[-1].taken_over == 0)
    assert len(jobs) == one.taken_over + other.taken_over
    claimed = await store.claim(len(jobs))
    assert {2} == {run.attempt_number for run in claimed}
    assert len(jobs) == len(claimed)


@pytest.mark.scenario("L7")
async def test_when_a_reaping_process_dies_another_goes_on(store: Store, database: TestDatabase) -> None:
    await store.tenant()
    async with background_loops(grace=GRACE) as survivors, reaping(database.worker, survivors) as survivor:
        async with background_loops(grace=GRACE) as doomed, reaping(database.worker, doomed) as victim:
            await expired_runs(store, 5)
            await eventually(lambda: victim.taken_over + survivor.taken_over == 5)
            await doomed.stop(0.0)
        ended = len(victim.seen)
        (job_id,) = await expired_runs(store, 1)
        await eventually(is_in(store, job_id, JobState.QUEUED), within=INTERVAL + 1.0)
        assert ended == len(victim.seen)


async def test_a_round_that_fails_is_reported_with_its_reason_and_survived(
    store: Store, database: TestDatabase, loops: Loops, operator: "asyncpg.Connection[Any]"
) -> None:
    await store.tenant()
    (job_id,) = await expired_runs(store, 1)
    async with reaping(database.worker, loops, replace(PACE, round=0.1)) as rounds:
        async with operator.transaction():
            await operator.execute("LOCK TABLE hourglass.jobs IN ACCESS EXCLUSIVE MODE")
            await eventually(lambda: any(each.reason == "BUDGET_EXHAUSTED" for each in rounds.all))
        await eventually(is_in(store, job_id, JobState.QUEUED))


async def test_the_first_round_waits_like_one_after_an_outage(
    store: Store, database: TestDatabase, loops: Loops
) -> None:
    began = time.monotonic()
    async with reaping(database.worker, loops, replace(PACE, reconnect_wait=0.3)) as rounds:
        await eventually(lambda: rounds.good)
    assert rounds.seen[0].began - began >= 0.3


async def test_after_a_reconnect_workers_have_time_to_renew_first(
    store: Store, database: TestDatabase, loops: Loops, proxy: ChaosProxy
) -> None:
    await store.tenant()
    pace = replace(PACE, round=0.3, reconnect_wait=1.0)
    async with reaping(through(proxy, database.worker), loops, pace) as rounds:
        await eventually(lambda: rounds.good)
        proxy.black_hole = True
        proxy.sever()
        await eventually(lambda: proxy.accepted > 3)  # two at the start; the others were never answered
        run = await store.running(lease=OVER)
        proxy.black_hole = False
        back = time.monotonic()
        assert [Verdict.OK] == await store.runs.renew([token_of(run)], lease=30.0, budget=time_enough())
        await eventually(lambda: len([each for each in rounds.good if each.began > back]) >= 2, within=10)
        assert JobState.RUNNING == await state_of(store, run.job_id)
    assert 0 == rounds.taken_over
    assert min(each.began for each in rounds.good if each.began > back) - back >= 1.0


async def test_a_database_that_came_back_between_two_rounds_is_a_reconnect_too(
    store: Store, database: TestDatabase, loops: Loops, operator: "asyncpg.Connection[Any]"
) -> None:
    async with reaping(database.worker, loops, replace(PACE, reconnect_wait=0.5)) as rounds:
        await eventually(lambda: rounds.good)
        ended = time.monotonic()
        await operator.fetch(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'reaper' AND datname = current_database()"
        )
        await eventually(lambda: rounds.database.lost == 2)
        noticed = time.monotonic()
        await eventually(lambda: rounds.good[-1].began > noticed)
    assert min(each.began for each in rounds.good if each.began > noticed) - ended >= 0.5


async def test_the_loop_ends_when_it_is_told_to(database: TestDatabase, store: Store) -> None:
    pace = replace(PACE, interval=NEVER, reconnect_wait=NEVER, partitions_interval=NEVER)
    async with background_loops(grace=GRACE) as loops, reaping(database.worker, loops, pace):
        began = time.monotonic()
    assert time.monotonic() - began < GRACE, "it had to be cancelled"


async def partition_count(operator: "asyncpg.Connection[Any]") -> int:
    return int(await operator.fetchval("SELECT count(*) FROM pg_inherits"))


async def test_partitions_are_made_at_the_start(
    database: TestDatabase, store: Store, loops: Loops, operator: "asyncpg.Connection[Any]"
) -> None:
    before = await partition_count(operator)
    tables = await operator.fetchval("SELECT count(*) FROM pg_partitioned_table")

    async def made() -> bool:
        return await partition_count(operator) >= before + 2 * int(tables)

    async with reaping(database.worker, loops, replace(PACE, weeks_ahead=6, reconnect_wait=NEVER)):
        await eventually(made)


async def test_partitions_that_could_not_be_made_are_tried_again(
    database: TestDatabase, store: Store, loops: Loops, operator: "asyncpg.Connection[Any]"
) -> None:
    before = await partition_count(operator)

    async def waiting() -> bool:
        return bool(await operator.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"))

    async def given_up() -> bool:
        return not await waiting()

    async def made() -> bool:
        return before < await partition_count(operator)

    await operator.execute("SELECT pg_advisory_lock(hashtext('hourglass.ensure_partitions'))")
    async with reaping(database.worker, loops, replace(PACE, weeks_ahead=5, partitions=0.2)):
        await eventually(waiting)
        await eventually(given_up)
        assert before == await partition_count(operator)
        await operator.execute("SELECT pg_advisory_unlock(hashtext('hourglass.ensure_partitions'))")
        await eventually(made)
