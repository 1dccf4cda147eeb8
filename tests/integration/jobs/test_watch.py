"""WatchJob over a real store, a real socket, and a worker's stream that does what the test tells it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from grpc import StatusCode

from hourglass.jobs.v1 import event_pb2
from hourglass.jobs.v1 import jobs_service_pb2 as pb
from jobs_store.identifiers import sequence
from tests.integration.jobs.watched import LiveRun, Setting, live_delta, numbers, read, rest, watching
from tests.jobs import TENANT, failure, failure_of, of
from tests.postgres import TestDatabase
from tests.store import return_of, time_enough
from tests.waiting import eventually
from tests.worker_double import END


@pytest.fixture
async def setting(database: TestDatabase) -> AsyncIterator[Setting]:
    async with watching(database) as running:
        yield running


async def test_a_job_is_watched_from_its_create_to_its_result(setting: Setting) -> None:
    job_id = (await setting.jobs.create("k1")).job.job_id
    stream = setting.watch(job_id)
    assert numbers(await read(stream, 1)) == [(1, 1)]
    setting.worker.given[job_id] = []
    run = await setting.claim()
    assert numbers(await read(stream, 3)) == [(2, 1), (2, 2), (2, 3)]
    await eventually(lambda: setting.worker.streams)
    live = setting.worker.streams[-1].items
    for number, text in ((4, "Hel"), (5, "lo")):
        live.put_nowait(live_delta(run, number, text))
    deltas = await read(stream, 2)
    assert [event.token_delta.text for event in deltas] == ["Hel", "lo"]
    await setting.flush(run, 4, "Hel", "lo")
    await setting.finish(run, 6)
    live.put_nowait(END)
    ending = await rest(stream)
    assert [event.WhichOneof("event") for event in ending] == [
        "cost_recorded",
        "attempt_ended",
        "result_accepted",
        "state_changed",
    ]
    assert ending[-1].state_changed.terminal
    assert numbers(ending) == [(2, 6), (2, 7), (2, 8), (2, 9)]


@pytest.mark.scenario("W6")
async def test_a_second_watch_replays_the_same_events(setting: Setting) -> None:
    job_id = (await setting.jobs.create("k1")).job.job_id
    run = await setting.claim()
    await setting.flush(run, 4, *"abcdef")
    await setting.finish(run, 10)
    whole = await rest(setting.watch(job_id))
    assert await rest(setting.watch(job_id)) == whole
    for cut in range(len(whole)):
        assert await rest(setting.watch(job_id, after=whole[cut].sequence)) == whole[cut + 1 :]


@pytest.mark.scenario("W3")
async def test_a_watch_goes_on_into_the_second_attempt_and_says_what_was_lost(setting: Setting) -> None:
    job_id = (await setting.jobs.create("k1")).job.job_id
    setting.worker.given[job_id] = []
    run = await setting.claim()
    stream = setting.watch(job_id)
    await read(stream, 4)
    await eventually(lambda: setting.worker.streams)
    for number, text in ((4, "kept"), (5, "lost")):
        setting.worker.streams[-1].items.put_nowait(live_delta(run, number, text))
    await read(stream, 2)
    await setting.flush(run, 4, "kept")
    await setting.store.runs.requeue([return_of(run, first_event=5)], budget=time_enough())
    setting.worker.streams[-1].items.put_nowait(END)
    second = await setting.claim()
    setting.worker.given[job_id] = [END]
    await setting.finish(second, 4)
    events = await rest(stream)
    assert [event.state_changed.state for event in events if event.HasField("state_changed")][-1] == 4
    first_of_second = next(event for event in events if event.sequence == sequence(second.epoch, 1))
    assert first_of_second.last_durable_sequence < first_of_second.sequence


async def test_a_worker_that_does_not_know_the_job_costs_time_only(setting: Setting) -> None:
    job_id = (await setting.jobs.create("k1")).job.job_id
    run = await setting.claim()
    stream = setting.watch(job_id)
    await read(stream, 4)
    await eventually(lambda: setting.worker.refused > 0)
    await setting.flush(run, 4, "from the store")
    assert (await read(stream, 1))[0].token_delta.text == "from the store"
    stream.cancel()


@pytest.mark.scenario("W2")
async def test_cursors_that_nothing_can_follow_are_out_of_range(setting: Setting) -> None:
    job_id = (await setting.jobs.create("k1")).job.job_id
    for after in (sequence(2, 1), sequence(9, 9)):
        refused = await failure(setting.watch(job_id, after=after).read())
        assert refused.kind == (StatusCode.OUT_OF_RANGE, "CURSOR_OUT_OF_RANGE")
    await setting.jobs.jobs.CancelJob(pb.CancelJobRequest(job_id=job_id), metadata=of(TENANT))
    last = (await rest(setting.watch(job_id)))[-1].sequence
    assert await rest(setting.watch(job_id, after=last)) == []
    refused = await failure(setting.watch(job_id, after=last + 1).read())
    assert refused.kind == (StatusCode.OUT_OF_RANGE, "CURSOR_OUT_OF_RANGE")


@pytest.mark.scenario("W2")
async def test_a_cursor_past_the_durable_end_of_a_live_job_waits_for_the_next_epoch(
    setting: Setting,
) -> None:
    job_id = (await setting.jobs.create("k1")).job.job_id
    stream = setting.watch(job_id, after=sequence(1, 40))
    await setting.claim()
    assert numbers(await read(stream, 1)) == [(2, 1)]
    stream.cancel()


async def test_a_filter_shows_its_kinds_and_the_end(setting: Setting) -> None:
    job_id = (await setting.jobs.create("k1")).job.job_id
    run = await setting.claim()
    await setting.flush(run, 4, "a", "b")
    await setting.finish(run, 6)
    events = await rest(setting.watch(job_id, kinds=[event_pb2.JOB_EVENT_KIND_TOKEN_DELTA]))
    assert [event.WhichOneof("event") for event in events] == ["token_delta", "token_delta", "state_changed"]


async def test_everything_that_is_wrong_with_a_watch_is_told_at_once(setting: Setting) -> None:
    kinds: Any = [0, 77]
    refused = await failure(setting.watch("x", after=-1, kinds=kinds).read())
    assert set(refused.violations) == {"job_id", "after_sequence", "kinds[0]", "kinds[1]"}


async def test_another_tenants_job_cannot_be_watched(setting: Setting) -> None:
    job_id = (await setting.jobs.create("k1")).job.job_id
    request = pb.WatchJobRequest(job_id=job_id)
    refused = await failure(setting.jobs.jobs.WatchJob(request, metadata=of("other")).read())
    assert refused.kind == (StatusCode.NOT_FOUND, "JOB_NOT_FOUND")


async def test_a_watch_with_a_deadline_ends_before_it_with_resume(setting: Setting) -> None:
    job_id = (await setting.jobs.create("k1")).job.job_id
    stream = setting.jobs.jobs.WatchJob(pb.WatchJobRequest(job_id=job_id), metadata=of(TENANT), timeout=0.5)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await rest(stream)
    assert failure_of(caught.value).kind == (StatusCode.UNAVAILABLE, "RESUME")


async def test_a_watch_ends_with_resume_when_the_server_drains(setting: Setting) -> None:
    job_id = (await setting.jobs.create("k1")).job.job_id
    stream = setting.watch(job_id)
    await read(stream, 1)
    draining = asyncio.create_task(setting.jobs.app.server.drain())
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await rest(stream)
    assert failure_of(caught.value).kind == (StatusCode.UNAVAILABLE, "RESUME")
    await draining


@pytest.mark.scenario("X6")
async def test_a_watch_that_is_dropped_lets_go_of_the_worker_and_cancels_nothing(setting: Setting) -> None:
    job_id = (await setting.jobs.create("k1")).job.job_id
    setting.worker.given[job_id] = []
    await setting.claim()
    stream = setting.watch(job_id)
    await read(stream, 4)
    await eventually(lambda: setting.worker.streams)
    stream.cancel()
    await eventually(lambda: setting.worker.streams[-1].closed)
    job = (await setting.jobs.jobs.GetJob(pb.GetJobRequest(job_id=job_id), metadata=of(TENANT))).job
    assert not job.HasField("cancel_request_time")


async def test_all_watchers_of_a_job_share_one_stream_of_its_worker(setting: Setting) -> None:
    job_id = (await setting.jobs.create("k1")).job.job_id
    live = LiveRun(setting, await setting.claim())
    streams = [setting.watch(job_id) for _ in range(20)]
    for stream in streams:
        await read(stream, 4)
    await eventually(lambda: setting.worker.streams)
    live.say("to everybody")
    for stream in streams:
        assert ["to everybody"] == [event.token_delta.text for event in await read(stream, 1)]
    await live.finish()
    ends = [numbers(await rest(stream))[-1] for stream in streams]
    assert [ends[0]] * 20 == ends
    assert 1 == len(setting.worker.streams)


async def test_a_running_job_is_asked_to_stop(setting: Setting) -> None:
    job_id = (await setting.jobs.create("k1")).job.job_id
    await setting.claim()
    request = pb.CancelJobRequest(job_id=job_id, reason="changed my mind")
    answer = await setting.jobs.jobs.CancelJob(request, metadata=of(TENANT))
    assert answer.outcome == pb.CANCEL_OUTCOME_CANCEL_REQUESTED
    assert answer.job.HasField("cancel_request_time")


async def test_a_quote_says_how_busy_the_workers_are_when_there_is_time(setting: Setting) -> None:
    request = pb.QuoteRequest(models=["simulated-fast"], input_token_bound=1)
    quote = await setting.jobs.jobs.Quote(request, metadata=of(TENANT))
    assert (quote.worker_load.status, quote.worker_load.free_slot_count) == (pb.QUOTE_LINE_STATUS_OK, 3)
    hurried = await setting.jobs.jobs.Quote(request, metadata=of(TENANT), timeout=0.1)
    assert (hurried.worker_load.status, hurried.worker_load.reason) == (
        pb.QUOTE_LINE_STATUS_SKIPPED,
        "BUDGET_TOO_LOW",
    )
