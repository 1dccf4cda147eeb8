"""The asyncio client over a socket: one deadline, tries by the rules, one key, and nothing after a cancel."""

import asyncio
import time
from typing import Any

import pytest
from grpc import StatusCode

from budget.retry import RETRY_HEADER, Backoff, Retries
from hourglass.jobs.v1 import jobs_service_pb2 as pb
from hourglass.jobs.v1.event_pb2 import TokenDelta
from hourglass.jobs.v1.job_pb2 import Job, JobSpec, JobState
from hourglass_client import (
    AsyncClient,
    Cancelled,
    DeadlineExceeded,
    InvalidRequest,
    NotFound,
    OutOfRange,
    Unavailable,
)
from tests.integration.client.scripted_service import ScriptedService, answers, fails, hangs, scripted
from tests.unit.client.events import RUNNING, SUCCEEDED, at, attempt, delta, state
from tests.waiting import eventually

SPEC = JobSpec(model="simulated-fast")
CREATED = answers(pb.CreateJobResponse(job=Job(job_id="j")))
SLOWLY = Retries(backoff=Backoff(base=3600.0, cap=3600.0))


def sends(*events: Any, then: Any = None) -> Any:
    async def behave(request: Any, context: Any) -> None:
        for event in events:
            if event.sequence > request.after_sequence:
                await context.write(pb.WatchJobResponse(event=event))
        if then is not None:
            await then(request, context)

    return behave


async def test_a_create_that_nobody_answered_is_sent_again_with_its_key_within_one_deadline() -> None:
    service = ScriptedService(fails(StatusCode.UNAVAILABLE), fails(StatusCode.UNAVAILABLE), CREATED)
    async with scripted(service) as client:
        assert "j" == (await client.create(SPEC, timeout=2.0)).job.job_id
    assert 1 == len({request.idempotency_key for request in service.requests})
    assert [None, "1", "2"] == [metadata.get(RETRY_HEADER) for metadata in service.metadata]
    remaining = [left or 0.0 for left in service.remaining]
    assert 1.5 < min(remaining) <= max(remaining) < 2.0


async def test_a_deadline_ends_a_call_that_hangs_and_its_key_is_told() -> None:
    service = ScriptedService(hangs)
    async with scripted(service) as client:
        before = time.monotonic()
        with pytest.raises(DeadlineExceeded) as caught:
            await client.create(SPEC, timeout=0.3)
        assert 0.25 < time.monotonic() - before < 0.6
        await eventually(service.cancelled.is_set)
    assert service.requests[0].idempotency_key == caught.value.key


async def test_a_pushback_beyond_the_deadline_ends_the_call_at_once() -> None:
    service = ScriptedService(fails(StatusCode.UNAVAILABLE, "LANE_PAUSED", retry_after=30.0))
    async with scripted(service) as client:
        with pytest.raises(Unavailable) as caught:
            await client.get("j", timeout=5.0)
    assert ("LANE_PAUSED", 30.0) == (caught.value.reason, caught.value.retry_after)
    assert 1 == len(service.requests)


async def test_a_cancel_ends_the_call_at_once_and_nothing_is_tried_after_it() -> None:
    service = ScriptedService(hangs)
    async with scripted(service) as client:
        calling = asyncio.create_task(client.create(SPEC))
        await eventually(lambda: service.requests)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        await eventually(service.cancelled.is_set)
        assert 1 == len(service.requests)


async def test_a_cancel_during_the_wait_before_a_retry_is_the_end() -> None:
    service = ScriptedService(fails(StatusCode.UNAVAILABLE))
    async with scripted(service, retries=SLOWLY) as client:
        calling = asyncio.create_task(client.wait("j"))
        await eventually(lambda: service.requests)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
    assert 1 == len(service.requests)


async def test_a_cancel_that_the_server_made_is_an_error_and_no_cancel() -> None:
    async with scripted(ScriptedService(fails(StatusCode.CANCELLED))) as client:
        with pytest.raises(Cancelled):
            await client.get("j")
        with pytest.raises(Cancelled):
            async with client.watch("j") as events:
                await anext(events)


async def test_errors_have_their_family_their_reason_and_their_violations() -> None:
    wrong = [("spec.messages", "is empty")]
    service = ScriptedService(
        fails(StatusCode.NOT_FOUND, "JOB_NOT_FOUND"),
        fails(StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT", fields=wrong),
        fails(StatusCode.OUT_OF_RANGE, "CURSOR_OUT_OF_RANGE"),
    )
    async with scripted(service) as client:
        with pytest.raises(NotFound, match="NOT_FOUND/JOB_NOT_FOUND: no"):
            await client.get("j")
        with pytest.raises(InvalidRequest) as caught:
            await client.create(SPEC)
        assert wrong == [(one.field, one.description) for one in caught.value.violations]
        with pytest.raises(OutOfRange):
            async with client.watch("j") as events:
                await anext(events)


async def test_a_wait_asks_again_while_the_job_runs() -> None:
    running = answers(pb.WaitJobResponse(job=Job(state=JobState.JOB_STATE_RUNNING)))
    ended = answers(pb.WaitJobResponse(job=Job(state=JobState.JOB_STATE_SUCCEEDED)))
    service = ScriptedService(running, fails(StatusCode.UNAVAILABLE, "DRAINING"), running, ended)
    async with scripted(service) as client:
        assert JobState.JOB_STATE_SUCCEEDED == (await client.wait("j")).state
    assert 4 == len(service.requests)


async def test_a_wait_whose_time_is_over_answers_the_job_as_it_is() -> None:
    running = answers(pb.WaitJobResponse(job=Job(state=JobState.JOB_STATE_RUNNING)))
    async with scripted(ScriptedService(running, hangs)) as client:
        assert JobState.JOB_STATE_RUNNING == (await client.wait("j", timeout=0.5)).state


async def test_a_stream_that_ends_early_is_gone_on_with_after_the_last_event() -> None:
    events = (state(2, RUNNING), attempt(2, 1), delta(2, 3, "The ", offset=0), delta(2, 4, "sky", offset=4))
    service = ScriptedService(
        sends(*events[:3], then=fails(StatusCode.UNAVAILABLE, "RESUME")),
        fails(StatusCode.UNAVAILABLE),
        sends(*events, state(2, SUCCEEDED, n=5)),
    )
    async with scripted(service) as client, client.watch("j") as watch:
        seen = [event.sequence async for event in watch]
    assert [at(2, n) for n in (1, 2, 3, 4, 5)] == seen
    assert [0, at(2, 3), at(2, 3)] == [request.after_sequence for request in service.requests]
    assert ("The sky", True) == (watch.text, watch.transcript.ended)


async def test_a_step_that_was_cancelled_loses_no_event() -> None:
    events = (state(2, RUNNING), state(2, SUCCEEDED, n=2))
    service = ScriptedService(sends(events[0], then=hangs), sends(*events))
    async with scripted(service) as client, client.watch("j") as watch:
        await anext(watch)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await anext(watch)
        await eventually(service.cancelled.is_set)
        assert [at(2, 2)] == [event.sequence async for event in watch]


async def test_leaving_a_watch_closes_its_stream() -> None:
    service = ScriptedService(sends(state(2, RUNNING), then=hangs))
    async with scripted(service) as client:
        async with client.watch("j") as watch:
            await anext(watch)
        await eventually(service.cancelled.is_set)
        assert [] == [event async for event in watch]


async def test_all_streams_of_a_watch_share_one_deadline() -> None:
    service = ScriptedService(sends(state(2, RUNNING), then=fails(StatusCode.UNAVAILABLE)), hangs)
    async with scripted(service) as client, client.watch("j", timeout=0.6) as watch:
        before = time.monotonic()
        await anext(watch)
        with pytest.raises(DeadlineExceeded):
            await anext(watch)
        assert 0.5 < time.monotonic() - before < 1.0
    assert at(2, 1) == watch.transcript.cursor


async def test_a_generated_answer_is_never_asked_for_twice_and_is_closed_when_it_is_left() -> None:
    async def writes(_request: Any, context: Any) -> None:
        await context.write(pb.GenerateResponse(token_delta=TokenDelta(text="a")))
        await asyncio.Event().wait()

    service = ScriptedService(fails(StatusCode.UNAVAILABLE, "DRAINING"), writes)
    async with scripted(service) as client:
        with pytest.raises(Unavailable):
            async with client.generate(pb.GenerateRequest(model="m")) as messages:
                await anext(messages)
        assert 1 == len(service.requests)
        async with client.generate(pb.GenerateRequest(model="m"), timeout=5.0) as messages:
            assert "a" == (await anext(messages)).token_delta.text
        await eventually(service.cancelled.is_set)


async def test_nobody_there_is_unavailable_within_the_deadline() -> None:
    async with AsyncClient.connect("127.0.0.1:1") as client:
        before = time.monotonic()
        with pytest.raises((Unavailable, DeadlineExceeded)):
            await client.get("j", timeout=0.5)
        assert time.monotonic() - before < 0.8
