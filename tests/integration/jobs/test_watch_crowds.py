"""Many watchers, slow ones, frozen ones, and those who vanish."""

import asyncio
import gc
import time
from contextlib import asynccontextmanager
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final

import grpc
import psutil
import pytest
from grpc import StatusCode
from grpc_health.v1 import health_pb2, health_pb2_grpc

from hourglass.jobs.v1 import event_pb2
from hourglass.jobs.v1 import jobs_service_pb2 as pb
from hourglass.jobs.v1.job_pb2 import JOB_STATE_CANCELLED
from hourglass.jobs.v1.jobs_service_pb2_grpc import JobServiceStub
from jobs_store.reading import JobReader
from servicekit.channels import client_options
from tests.chaos_proxy import ChaosProxy
from tests.integration.jobs.watched import LiveRun, Setting, read, rest, watching
from tests.jobs import TENANT, failure_of, of
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.postgres import TestDatabase

MANY: Final = {"max_concurrent_streams": 10_000}
RESUME: Final = (StatusCode.UNAVAILABLE, "RESUME")
BEFORE: Final = 500
ATTACHES: Final = 40
PIECE: Final = "x" * 2000
_MEGABYTE: Final = 1024 * 1024


async def running(setting: Setting, key: str = "k1") -> LiveRun:
    await setting.jobs.create(key)
    return LiveRun(setting, await setting.claim())


async def ending_of(stream: Any) -> tuple[StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await rest(stream)
    return failure_of(caught.value).kind


async def log_of(setting: Setting, job_id: str) -> list[event_pb2.JobEvent]:
    request = pb.WatchJobRequest(job_id=job_id, replay_only=True)
    return await rest(setting.jobs.jobs.WatchJob(request, metadata=of(TENANT)))


@pytest.mark.faults
@pytest.mark.timeout(180)
@pytest.mark.scenario("W1")
async def test_who_attaches_at_any_moment_reads_the_log_once_and_in_order_and_then_live(
    database: "TestDatabase",
) -> None:
    random = Random(5)
    async with watching(database, **MANY) as setting:
        live = await running(setting)
        job_id = str(live.run.job_id)
        for number in range(BEFORE):
            live.say(f"<{number}>")
        await live.flush()
        stored = await log_of_running(setting, job_id, live.last + 1)
        cursors = [0, *(random.choice(stored).sequence for _ in range(ATTACHES - 1))]

        async def attach(cursor: int) -> list[event_pb2.JobEvent]:
            await asyncio.sleep(random.uniform(0.0, 3.0))
            return await rest(setting.watch(job_id, after=cursor))

        readers = [asyncio.create_task(attach(cursor)) for cursor in cursors]
        for number in range(300):
            live.say(f"<live {number}>")
            if random.random() < 0.1:
                await live.flush()
            await asyncio.sleep(0.01)
        await live.finish()
        seen = await asyncio.gather(*readers)
        whole = await rest(setting.watch(job_id))
    for cursor, events in zip(cursors, seen, strict=True):
        assert [each.sequence for each in whole if each.sequence > cursor] == [e.sequence for e in events]
    assert whole == seen[0]


async def log_of_running(setting: Setting, job_id: str, count: int) -> list[event_pb2.JobEvent]:
    stream = setting.watch(job_id)
    found = await read(stream, count)
    stream.cancel()
    return found


@pytest.mark.faults
@pytest.mark.timeout(180)
@pytest.mark.scenario("W4")
async def test_a_watcher_that_reads_an_event_now_and_then_slows_nobody_and_fills_no_memory(
    database: "TestDatabase",
) -> None:
    async with watching(database, **MANY) as setting:
        live = await running(setting)
        job_id = str(live.run.job_id)
        slow, quick = [setting.watch(job_id) for _ in range(5)], setting.watch(job_id)
        for stream in (*slow, quick):
            await read(stream, 4)
        reading = [asyncio.create_task(read_slowly(stream)) for stream in slow]
        before, slowest = resident(), 0.0
        for _ in range(50):
            started = time.monotonic()
            for _ in range(100):
                live.say(PIECE, kept=False)
                await read(quick, 1)
            slowest = max(slowest, time.monotonic() - started)
            await live.flush()
        grown = resident() - before
        said = live.last
        for task in reading:
            task.cancel()
        await asyncio.wait(reading)
        behind = (await read(slow[0], 1))[0].sequence & 0xFFFFFFFF
        for stream in (*slow, quick):
            stream.cancel()
    assert behind < said / 2, "the slow ones were not slow"
    assert slowest < 5.0, "the slow ones slowed a quick one"
    assert grown < 12 * _MEGABYTE, f"{grown / _MEGABYTE:.0f} MB for 50 MB that slow watchers did not read"


async def read_slowly(stream: Any) -> None:
    while True:
        await read(stream, 1)
        await asyncio.sleep(1.0)


def handlers() -> int:
    """Watches that the server works on; grpc.aio names their tasks."""
    return sum("JobService/WatchJob]" in task.get_name() for task in asyncio.all_tasks())


def resident() -> int:
    gc.collect()
    return int(psutil.Process().memory_info().rss)


@pytest.mark.faults
@pytest.mark.timeout(180)
@pytest.mark.scenario("W5")
async def test_cancelled_watches_leave_no_handler_and_no_memory_behind(database: "TestDatabase") -> None:
    rounds, watches, slowest = 10, 40, 0.0
    memory: list[int] = []
    async with watching(database, **MANY) as setting:
        live = await running(setting)
        for _ in range(rounds):
            streams = [setting.watch(str(live.run.job_id)) for _ in range(watches)]
            for stream in streams:
                await read(stream, 4)
            for stream in streams:
                stream.cancel()
            started = time.monotonic()
            await eventually(lambda: handlers() == 0)
            slowest = max(slowest, time.monotonic() - started)
            await eventually(lambda: all(stream.closed for stream in setting.worker.streams))
            setting.worker.streams.clear()
            memory.append(resident())
    assert slowest < 1.0
    assert memory[-1] < 1.05 * memory[4], memory


@pytest.mark.faults
@pytest.mark.timeout(180)
async def test_a_watcher_that_freezes_is_let_go_and_may_come_again(database: "TestDatabase") -> None:
    async with watching(database, watch_write_limit=0.5) as setting:
        live = await running(setting)
        job_id = str(live.run.job_id)
        frozen, quick = setting.watch(job_id), setting.watch(job_id)
        await read(frozen, 4)
        await read(quick, 4)
        assert 2 == handlers()
        for _ in range(300):
            live.say(PIECE)
            await read(quick, 1)
        await live.flush()
        await eventually(lambda: handlers() == 1)
        seen, ending = await read_to_its_failure(frozen)
        assert RESUME == ending
        await live.finish()
        again = await rest(setting.watch(job_id, after=seen[-1].sequence))
    assert [seen[-1].sequence + 1 + n for n in range(len(again))] == [each.sequence for each in again]


async def read_to_its_failure(stream: Any) -> tuple[list[event_pb2.JobEvent], tuple[StatusCode, str]]:
    seen: list[event_pb2.JobEvent] = []
    try:
        while True:
            seen += await read(stream, 1)
    except grpc.aio.AioRpcError as error:
        return seen, failure_of(error).kind


@pytest.mark.faults
@pytest.mark.timeout(180)
async def test_a_watcher_that_vanishes_without_a_word_is_let_go(database: "TestDatabase") -> None:
    async with watching(database, watch_write_limit=0.5) as setting:
        live = await running(setting)
        host, port = setting.jobs.address.rsplit(":", 1)
        async with ChaosProxy.to_tcp(host, int(port)) as proxy, through(proxy) as jobs:
            request = pb.WatchJobRequest(job_id=str(live.run.job_id))
            stream = jobs.WatchJob(request, metadata=of(TENANT))
            await read(stream, 4)
            await eventually(lambda: setting.worker.streams)
            proxy.freeze()
            for _ in range(600):
                live.say(PIECE)
                await asyncio.sleep(0.002)
            await eventually(lambda: setting.worker.streams[-1].closed, within=10.0)
            stream.cancel()
            proxy.flow()
        await eventually(lambda: handlers() == 0)


@asynccontextmanager
async def through(proxy: ChaosProxy) -> "AsyncIterator[Any]":
    options = [*client_options(), ("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{proxy.port}", options=options) as channel:
        yield JobServiceStub(channel)


async def test_a_server_with_open_streams_ends_at_once_and_tells_each_watcher_to_come_again(
    database: "TestDatabase",
) -> None:
    """A health Watch stands beside them, read and unread: neither holds the others, nor the end, up."""
    async with watching(database, drain_grace=20.0) as setting:
        live = await running(setting)
        watches = [setting.watch(str(live.run.job_id)) for _ in range(50)]
        for stream in watches:
            await read(stream, 4)
        async with grpc.aio.insecure_channel(setting.jobs.address) as channel:
            stub: Any = health_pb2_grpc.HealthStub(channel)
            health = stub.Watch(health_pb2.HealthCheckRequest())
            unread = stub.Watch(health_pb2.HealthCheckRequest())
            assert health_pb2.HealthCheckResponse.SERVING == (await health.read()).status
            started = time.monotonic()
            draining = asyncio.create_task(setting.jobs.app.server.drain())
            assert [RESUME] * 50 == [await ending_of(stream) for stream in watches]
            assert health_pb2.HealthCheckResponse.NOT_SERVING == (await health.read()).status
            await draining
            assert time.monotonic() - started < 5.0
            unread.cancel()


@pytest.mark.faults
@pytest.mark.timeout(180)
async def test_watches_and_waits_of_idle_jobs_cost_one_statement_a_tick(
    database: "TestDatabase", monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = Looks(monkeypatch)
    async with watching(database, **MANY) as setting:
        job_ids = [(await setting.jobs.create(f"k{n}")).job.job_id for n in range(20)]
        streams = [setting.watch(job_id) for job_id in job_ids for _ in range(3)]
        for stream in streams:
            await read(stream, 1)
        wait = partial(setting.jobs.jobs.WaitJob, metadata=of(TENANT), timeout=60.0)
        waits = [asyncio.ensure_future(wait(pb.WaitJobRequest(job_id=job_id))) for job_id in job_ids]
        await eventually(looks.left_to_the_timer, within=30.0)
        for job_id in job_ids:
            await setting.jobs.jobs.CancelJob(pb.CancelJobRequest(job_id=job_id), metadata=of(TENANT))
        assert {JOB_STATE_CANCELLED} == {(await answer).job.state for answer in waits}
        assert {True} == {(await rest(stream))[-1].state_changed.terminal for stream in streams}


class Looks:
    """Who reads where jobs stand: whoever waits for them, or the timer for all."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.own, self.ticks = 0, 0
        own, ticks = JobReader.position, JobReader.positions

        def look(*arguments: Any, **named: Any) -> Any:
            self.own += 1
            return own(*arguments, **named)

        def tick(*arguments: Any, **named: Any) -> Any:
            self.ticks += 1
            return ticks(*arguments, **named)

        monkeypatch.setattr(JobReader, "position", look)
        monkeypatch.setattr(JobReader, "positions", tick)

    async def left_to_the_timer(self) -> bool:
        """Whether three ticks pass in which nobody looks on their own."""
        own, ticks = self.own, self.ticks
        await eventually(lambda: self.ticks >= ticks + 3, within=10.0)
        return self.own == own
