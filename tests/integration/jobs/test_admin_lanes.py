"""AdminService: lanes paused, resumed, limited and listed, and the workers that run jobs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest
from grpc import StatusCode

from hourglass.jobs.v1 import admin_service_pb2 as pb
from jobs_store.identifiers import TenantId
from jobs_store.signals import Channel
from servicekit.wire_time import timestamp_of
from tests.integration.store.locks import superuser, until_waiting
from tests.jobs import TENANT, Jobs, failure, of
from tests.store import LANE, Store, open_store, time_enough
from tests.waiting import eventually

pytestmark = pytest.mark.every_postgres

DEMO = TenantId(TENANT)


@pytest.fixture
async def store(jobs: Jobs) -> AsyncIterator[Store]:
    """Somebody who runs jobs, as far as the store is concerned."""
    async with open_store(jobs.database) as opened:
        yield opened


def named(lane: str = LANE, request_id: str = "r1") -> dict[str, Any]:
    return {"lane": lane, "request_id": request_id, "reason": "a bad day"}


async def pause(jobs: Jobs, *told: str) -> pb.PauseLaneResponse:
    answer: pb.PauseLaneResponse = await jobs.admin.PauseLane(
        pb.PauseLaneRequest(**named(*told)), metadata=of("ops", "olga")
    )
    return answer


async def resume(jobs: Jobs, lane: str = LANE, request_id: str = "r2") -> pb.ResumeLaneResponse:
    answer: pb.ResumeLaneResponse = await jobs.admin.ResumeLane(
        pb.ResumeLaneRequest(**named(lane, request_id)), metadata=of("ops", "olga")
    )
    return answer


async def limit(jobs: Jobs, most: int, request_id: str = "l1") -> pb.UpdateLaneResponse:
    request = pb.UpdateLaneRequest(**named(request_id=request_id), max_running_count=most)
    answer: pb.UpdateLaneResponse = await jobs.admin.UpdateLane(request)
    return answer


async def lane(jobs: Jobs, name: str = LANE) -> pb.Lane:
    found = (await jobs.admin.ListLanes(pb.ListLanesRequest())).lanes
    (one,) = [each for each in found if each.lane == name]
    assert isinstance(one, pb.Lane)
    return one


@asynccontextmanager
async def heard(jobs: Jobs) -> AsyncIterator[list[str]]:
    """The lanes that workers are told to look at."""
    lanes: list[str] = []
    connection: Any = await asyncpg.connect(jobs.database.owner)
    try:
        await connection.add_listener(Channel.JOBS_READY, lambda *told: lanes.append(told[-1]))
        yield lanes
    finally:
        await connection.close()


async def test_a_paused_lane_is_claimed_by_nobody_and_goes_on_at_resume(jobs: Jobs, store: Store) -> None:
    job = await store.create(DEMO)
    paused = (await pause(jobs)).lane
    assert (pb.LANE_STATE_PAUSED, "OPERATOR_PAUSE") == (paused.state, paused.state_cause)
    assert paused.HasField("pause_time")
    assert [] == await store.claim()
    opened = (await resume(jobs)).lane
    assert (pb.LANE_STATE_OPEN, "", False) == (
        opened.state,
        opened.state_cause,
        opened.HasField("pause_time"),
    )
    assert [job] == [run.job_id for run in await store.claim()]


async def test_many_claims_at_once_take_nothing_once_a_pause_is_answered(jobs: Jobs, store: Store) -> None:
    for _ in range(20):
        await store.create(DEMO)
    stopped = asyncio.Event()

    async def claim_until_stopped() -> int:
        claimed_after = 0
        while not stopped.is_set():
            answered = paused.done()
            runs = await store.claim(1)
            claimed_after += len(runs) if answered else 0
        return claimed_after

    paused = asyncio.create_task(pause(jobs))
    claims = [asyncio.create_task(claim_until_stopped()) for _ in range(3)]
    await paused
    assert [] == await store.claim()
    stopped.set()
    assert [0, 0, 0] == await asyncio.gather(*claims)


async def test_a_claim_that_waited_for_the_pause_takes_nothing(jobs: Jobs, store: Store) -> None:
    await store.create(DEMO)
    async with superuser(store) as connection, superuser(store) as watching:
        async with connection.transaction():
            await connection.execute("UPDATE hourglass.lanes SET paused_time = now()")
            claim = asyncio.create_task(store.claim())
            await until_waiting(watching)
        assert [] == await claim


async def test_resume_wakes_the_workers(jobs: Jobs, store: Store) -> None:
    await store.create(DEMO)
    await pause(jobs)
    async with heard(jobs) as lanes:
        await resume(jobs)
        await eventually(lambda: lanes == [LANE], within=5)


async def test_resume_ends_a_parking_too(jobs: Jobs, store: Store) -> None:
    await store.create(DEMO)
    await store.runs.park_lane(LANE, duration=3600.0, cause="HTTP_401", budget=time_enough())
    parked = await lane(jobs)
    assert (pb.LANE_STATE_PARKED, "HTTP_401") == (parked.state, parked.state_cause)
    assert parked.park_until_time.ToDatetime(UTC) > datetime.now(UTC)
    opened = (await resume(jobs)).lane
    assert (pb.LANE_STATE_OPEN, False) == (opened.state, opened.HasField("park_until_time"))
    assert 1 == len(await store.claim())


async def test_a_parking_without_a_known_end_shows_none(jobs: Jobs, store: Store) -> None:
    await store.runs.park_lane(LANE, duration=3600.0, cause="HTTP_401", budget=time_enough())
    await jobs.sql("UPDATE hourglass.lanes SET park_until = 'infinity'")
    parked = await lane(jobs)
    assert (pb.LANE_STATE_PARKED, False) == (parked.state, parked.HasField("park_until_time"))


async def test_what_waits_in_a_paused_lane_does_not_get_older(jobs: Jobs, store: Store) -> None:
    await store.create(DEMO, queue_timeout=0.2)
    await pause(jobs)
    minute = "interval '1 min'"
    await jobs.sql(
        f"UPDATE hourglass.lane_closures SET start_time = start_time - {minute},"
        f" end_time = end_time - {minute}"
    )
    await jobs.sql(
        f"UPDATE hourglass.jobs SET queue_start_time = queue_start_time - {minute},"
        f" queue_deadline = queue_deadline - {minute}"
    )
    assert 0 == (await store.reaper.reap(budget=time_enough())).expired
    await resume(jobs)
    assert 0 == await jobs.count("lane_closures WHERE end_time = 'infinity'")

    async def expired() -> bool:
        await store.reaper.reap(budget=time_enough())
        return await jobs.count("finished_jobs WHERE state = 'EXPIRED'") == 1

    await eventually(expired, within=10)


async def test_pausing_again_changes_nothing_and_resuming_an_open_lane_is_no_fault(jobs: Jobs) -> None:
    await jobs.sql("INSERT INTO hourglass.lanes (lane) VALUES ($1)", LANE)
    first = await pause(jobs)
    second = await pause(jobs, LANE, "r1b")
    assert (False, False, first.lane) == (first.replayed, second.replayed, second.lane)
    assert 1 == await jobs.count("lane_closures")
    assert [False, False] == [(await resume(jobs, LANE, request)).replayed for request in ("r2", "r3")]


async def test_a_change_of_a_lane_happens_once_a_request_and_is_audited(jobs: Jobs, store: Store) -> None:
    await pause(jobs)
    await resume(jobs)
    again = await pause(jobs)
    assert (True, pb.LANE_STATE_OPEN) == (again.replayed, again.lane.state)
    rows = await jobs.sql(
        "SELECT tenant_id, action, actor, request_id, reason, subject FROM hourglass.audit_log"
        " WHERE tenant_id = '*' ORDER BY id"
    )
    assert [
        ("*", "PAUSE_LANE", "olga", "r1", "a bad day", f"lane:{LANE}"),
        ("*", "RESUME_LANE", "olga", "r2", "a bad day", f"lane:{LANE}"),
    ] == [tuple(row) for row in rows]


async def test_a_request_id_decides_one_thing_about_one_lane(jobs: Jobs, store: Store) -> None:
    await store.runs.register_lanes(["other"], budget=time_enough())
    await pause(jobs)
    for call in (pause(jobs, "other", "r1"), resume(jobs, LANE, "r1"), limit(jobs, 3, "r1")):
        refused = await failure(call)
        assert (StatusCode.ALREADY_EXISTS, "REQUEST_ID_REUSED") == refused.kind
    assert [pb.LANE_STATE_PAUSED, pb.LANE_STATE_OPEN] == [
        (await lane(jobs, name)).state for name in (LANE, "other")
    ]


async def test_a_lane_that_there_is_not_is_refused_and_its_request_id_stays_free(
    jobs: Jobs, store: Store
) -> None:
    for call in (pause(jobs, "nowhere"), resume(jobs, "nowhere", "r1")):
        assert (StatusCode.NOT_FOUND, "LANE_NOT_FOUND") == (await failure(call)).kind
    assert not (await pause(jobs, LANE, "r1")).replayed


async def test_a_lane_that_no_worker_serves_is_seen_and_can_be_paused(jobs: Jobs) -> None:
    job = (await jobs.create("k1")).job
    assert (1, 0) == ((await lane(jobs, job.lane)).queued_count, await jobs.count("lanes"))
    assert pb.LANE_STATE_PAUSED == (await pause(jobs, job.lane)).lane.state
    async with open_store(jobs.database) as store:
        assert [] == await store.claim(lanes=[job.lane])


async def test_a_lanes_limit_holds_for_the_next_claim(jobs: Jobs, store: Store) -> None:
    for _ in range(5):
        await store.create(DEMO)
    assert 2 == (await limit(jobs, 2)).lane.max_running_count
    assert 2 == len(await store.claim(5))
    async with heard(jobs) as lanes:
        unlimited = (await limit(jobs, 0, "l2")).lane
        await eventually(lambda: lanes == [LANE], within=5)
    assert (False, 2, 3) == (
        unlimited.HasField("max_running_count"),
        unlimited.running_count,
        unlimited.queued_count,
    )
    assert 3 == len(await store.claim(5))


async def test_a_lane_tells_how_deep_and_how_old_it_is(jobs: Jobs, store: Store) -> None:
    for priority in (5, 0, -5):
        await store.create(DEMO, priority=priority)
    later = datetime(2099, 1, 1, tzinfo=UTC)
    await store.create(DEMO, schedule_time=later)
    oldest = (await jobs.sql("SELECT min(ready_time) FROM hourglass.jobs"))[0][0]
    seen = await lane(jobs)
    assert (4, 0, timestamp_of(oldest)) == (
        seen.queued_count,
        seen.running_count,
        seen.oldest_ready_time,
    )
    await store.claim(10)
    seen = await lane(jobs)
    assert (1, 3, False) == (seen.queued_count, seen.running_count, seen.HasField("oldest_ready_time"))


async def test_lanes_are_listed_by_name_known_and_waited_in_alike(jobs: Jobs, store: Store) -> None:
    waited_in = (await jobs.create("k1")).job.lane
    await store.runs.register_lanes(["a/1", "b/2", "z/9"], budget=time_enough())
    whole = [each.lane for each in (await jobs.admin.ListLanes(pb.ListLanesRequest())).lanes]
    assert {"a/1", "b/2", "z/9", LANE, waited_in} == set(whole)
    assert len(whole) == len(set(whole))
    paged: list[str] = []
    token = ""
    while not paged or token:
        answer = await jobs.admin.ListLanes(pb.ListLanesRequest(page_size=2, page_token=token))
        paged += [each.lane for each in answer.lanes]
        token = answer.next_page_token
    assert whole == paged


async def test_every_wrong_field_of_a_lanes_change_is_named_at_once(jobs: Jobs) -> None:
    for call in (
        jobs.admin.PauseLane(pb.PauseLaneRequest()),
        jobs.admin.ResumeLane(pb.ResumeLaneRequest(lane="a" * 256)),
    ):
        assert {"lane", "request_id", "reason"} == set((await failure(call)).violations)
    refused = await failure(jobs.admin.UpdateLane(pb.UpdateLaneRequest()))
    assert {"lane", "request_id", "reason", "max_running_count"} == set(refused.violations)
    assert {"max_running_count"} == set((await failure(limit(jobs, -1))).violations)


async def test_workers_are_listed_as_their_leases_show_them(jobs: Jobs, store: Store) -> None:
    assert [] == list((await jobs.admin.ListWorkers(pb.ListWorkersRequest())).workers)
    for _ in range(3):
        await store.create(DEMO)
    await store.claim(2, lease=60.0)
    await store.claim(1, lease=30.0)
    (row,) = await jobs.sql("SELECT min(lease_until) FROM hourglass.jobs WHERE state = 'RUNNING'")
    (one,) = (await jobs.admin.ListWorkers(pb.ListWorkersRequest())).workers
    assert ("worker-1", "127.0.0.1:50051", 3, timestamp_of(row[0])) == (
        one.worker_id,
        one.address,
        one.running_count,
        one.earliest_lease_expire_time,
    )
    await jobs.sql("UPDATE hourglass.jobs SET worker_id = 'worker-' || attempt_number + hashtext(id::text)")
    pages: list[list[str]] = []
    token = ""
    while not pages or token:
        answer = await jobs.admin.ListWorkers(pb.ListWorkersRequest(page_size=1, page_token=token))
        pages.append([each.worker_id for each in answer.workers])
        token = answer.next_page_token
    assert [3, sorted(pages)] == [len(pages), pages]
