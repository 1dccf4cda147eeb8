"""StreamProgress: what a server sees of a run while it goes on."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo
from google.rpc.status_pb2 import Status

from hourglass.worker.v1 import worker_service_pb2 as pb
from hourglass.worker.v1 import worker_service_pb2_grpc as pb_grpc
from jobs_store.identifiers import START, JobId, Sequence, epoch_of, new_job_id, sequence
from jobs_store.states import UnknownOutcomePolicy
from tests.store import TENANT, time_enough
from tests.waiting import eventually
from wire.events import event_message, event_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hourglass.jobs.v1.event_pb2 import JobEvent
    from jobs_store.events import Event
    from tests.integration.worker.workers import Bench
    from worker.app import Worker

Stub = Any


@asynccontextmanager
async def _stub(worker: Worker) -> AsyncIterator[Stub]:
    async with grpc.aio.insecure_channel(
        worker.address, options=[("grpc.use_local_subchannel_pool", 1)]
    ) as channel:
        yield pb_grpc.WorkerServiceStub(channel)


def _follow(stub: Stub, job: JobId, *, after: Sequence = START, timeout: float = 20.0) -> Any:
    request = pb.StreamProgressRequest(tenant_id=TENANT, job_id=str(job), after_sequence=after)
    return stub.StreamProgress(request, timeout=timeout)


async def _read(call: Any, *, most: int = 10_000) -> list[Event]:
    events: list[Event] = []
    async for message in call:
        if message.HasField("event"):
            event = event_of(message.event)
            assert event is not None
            events.append(event)
        if len(events) >= most:
            break
    return events


def _reason(error: grpc.aio.AioRpcError) -> str:
    info = ErrorInfo()
    assert any(detail.Unpack(info) for detail in _status(error).details)
    return info.reason


def _status(error: grpc.aio.AioRpcError) -> Status:
    trailers = dict(error.trailing_metadata())
    raw = trailers["grpc-status-details-bin"]
    assert isinstance(raw, bytes)
    return Status.FromString(raw)


async def _refusal(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await _read(call)
    return refused.value.code(), _reason(refused.value)


async def _queued_cursor(bench: Bench, job: JobId) -> Sequence:
    """The last durable event before the run."""
    events = await bench.events(job)
    return next(e.sequence for e in reversed(events) if epoch_of(e.sequence) == 1)


async def _stored(bench: Bench, job: JobId) -> list[JobEvent]:
    """The events of the run, as a reader of the store would get them."""
    return _messages([event for event in await bench.events(job) if epoch_of(event.sequence) == 2])


def _messages(events: list[Event]) -> list[JobEvent]:
    return [event_message(event) for event in events]


async def test_a_reader_sees_a_run_live_and_exactly_as_it_is_stored(bench: Bench) -> None:
    """From the claim to the terminal event, then the stream ends normally."""
    job = await bench.job("simulated:tokens=30,tps=30")
    async with bench.worker() as worker, _stub(worker) as stub:
        await bench.sent(job)
        seen = await _read(_follow(stub, job, after=await _queued_cursor(bench, job)))
    assert await _stored(bench, job) == _messages(seen)
    assert seen[-1].ends_stream


async def test_tokens_reach_a_reader_before_they_are_durable(bench: Bench) -> None:
    """Nothing is flushed here, and the tokens come all the same."""
    job = await bench.job("simulated-drip", attempt_timeout=3.0, max_attempts=1)
    async with bench.worker(flush_interval=30.0) as worker, _stub(worker) as stub:
        await bench.sent(job)
        call = _follow(stub, job, after=await _queued_cursor(bench, job))
        seen = await _read(call, most=5)
        call.cancel()
        assert ["TOKEN_DELTA"] * 2 == [event.kind for event in seen[3:]]
        assert 4 == len(await bench.events(job))
        await bench.ends(job)


async def test_a_reader_goes_on_behind_its_cursor(bench: Bench) -> None:
    """Exactly the rest, without a gap or a repeat."""
    job = await bench.job("simulated:tokens=40,tps=40")
    async with bench.worker() as worker, _stub(worker) as stub:
        await bench.sent(job)
        call = _follow(stub, job, after=await _queued_cursor(bench, job))
        first = await _read(call, most=8)
        call.cancel()
        rest = await _read(_follow(stub, job, after=first[-1].sequence))
    assert await _stored(bench, job) == _messages(first + rest)


async def test_a_cursor_in_text_that_died_goes_on_at_the_next_run(bench: Bench) -> None:
    """Beyond the last durable event of an older epoch: the run's first event tells what to drop."""
    job = await bench.job("simulated:tokens=5,tps=10")
    async with bench.worker() as worker, _stub(worker) as stub:
        await bench.sent(job)
        seen = await _read(_follow(stub, job, after=sequence(1, 700)))
    assert sequence(2, 1) == seen[0].sequence
    assert sequence(1, 1) == seen[0].attributes["last_durable_sequence"]


async def test_a_cursor_before_what_is_held_is_sent_to_the_store(bench: Bench) -> None:
    """Also one in the run's own epoch, once events were trimmed."""
    job = await bench.job("simulated-drip:tps=200", attempt_timeout=20.0)
    async with bench.worker(log_events=16) as worker, _stub(worker) as stub:
        await bench.sent(job)
        early = await _refusal(_follow(stub, job))
        await eventually(lambda: _has_events(bench, job, 40), within=10.0)
        trimmed = await _refusal(_follow(stub, job, after=sequence(2, 3)))
        await bench.store.cancellation.cancel(TENANT, job, principal="ada", reason="", budget=time_enough())
        await bench.ends(job)
    assert [(grpc.StatusCode.OUT_OF_RANGE, "RE_READ")] * 2 == [early, trimmed]


async def _has_events(bench: Bench, job: JobId, count: int) -> bool:
    return len(await bench.events(job)) >= count


async def test_a_worker_refuses_jobs_that_it_does_not_run(bench: Bench) -> None:
    """Unknown, of another tenant, ended, or in a later epoch than its own run."""
    job = await bench.job("simulated:tokens=10,tps=10")
    async with bench.worker() as worker, _stub(worker) as stub:
        await bench.sent(job)
        unknown = await _refusal(_follow(stub, new_job_id()))
        later = await _refusal(_follow(stub, job, after=sequence(7, 1)))
        other = pb.StreamProgressRequest(tenant_id="other", job_id=str(job))
        of_other = await _refusal(stub.StreamProgress(other, timeout=5.0))
        await bench.ends(job)
        await eventually(lambda: worker.free_slots == 8)
        ended = await _refusal(_follow(stub, job))
    assert {(grpc.StatusCode.FAILED_PRECONDITION, "NOT_OWNER")} == {unknown, later, of_other, ended}


async def test_a_run_that_lost_its_job_ends_its_streams(bench: Bench) -> None:
    """The zombie can add nothing: the reader is told to look for the owner."""
    job = await bench.job("simulated-drip", unknown_outcome_policy=UnknownOutcomePolicy.FAIL)
    async with bench.worker(renewal_interval=0.3, cut_off=20.0) as worker, _stub(worker) as stub:
        await bench.sent(job)
        call = _follow(stub, job, after=await _queued_cursor(bench, job))
        await bench.take_over(job)
        assert (grpc.StatusCode.FAILED_PRECONDITION, "NOT_OWNER") == await _refusal(call)


async def test_a_quiet_stream_shows_signs_of_life(bench: Bench) -> None:
    """A heartbeat for each interval without an event."""
    job = await bench.job("simulated-stall-first", attempt_timeout=3.0, max_attempts=1)
    async with bench.worker(heartbeat=0.2) as worker, _stub(worker) as stub:
        await bench.sent(job)
        call = _follow(stub, job, after=sequence(2, 3))
        messages = [await call.read() for _ in range(2)]
        call.cancel()
        assert ["heartbeat"] * 2 == [message.WhichOneof("message") for message in messages]
        await bench.ends(job)


@pytest.mark.faults
@pytest.mark.scenario("W4")
async def test_a_reader_that_does_not_read_slows_no_run(bench: Bench) -> None:
    """It holds its connection's window and nothing else; the run ends, and the reader is let go."""
    job = await bench.job("simulated-fast:tokens=10000", max_output_tokens=10_000)
    async with (
        bench.worker(log_events=200, log_size=10_000, write_limit=0.5) as worker,
        _stub(worker) as stub,
    ):
        call = None

        async def attached() -> bool:
            nonlocal call
            if await bench.token_of(job):
                call = _follow(stub, job, after=sequence(2, 1))
            return call is not None

        await eventually(attached)
        detail = await bench.ends(job, within=40.0)
        assert call is not None
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await _read(call)
    assert "SUCCEEDED" == detail.job.state
    assert {"RE_READ", "NOT_OWNER"} >= {_reason(refused.value)}


async def test_malformed_requests_name_every_field(bench: Bench) -> None:
    """All violations at once."""
    async with bench.worker() as worker, _stub(worker) as stub:
        request = pb.StreamProgressRequest(tenant_id="No!", job_id="7", after_sequence=-1)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await _read(stub.StreamProgress(request, timeout=5.0))
        drain = pb.DrainRequest(grace_duration=Duration(seconds=-1))
        with pytest.raises(grpc.aio.AioRpcError) as refused_drain:
            await stub.Drain(drain, timeout=5.0)
    assert grpc.StatusCode.INVALID_ARGUMENT is refused.value.code()
    assert ["tenant_id", "job_id", "after_sequence"] == _fields(refused.value)
    assert ["grace_duration"] == _fields(refused_drain.value)


def _fields(error: grpc.aio.AioRpcError) -> list[str]:
    found = BadRequest()
    assert any(detail.Unpack(found) for detail in _status(error).details)
    return [violation.field for violation in found.field_violations]


async def test_a_worker_tells_how_busy_it_is(bench: Bench) -> None:
    """Slots, lanes, state, and what it has at risk."""
    job = await bench.job("simulated-drip", attempt_timeout=2.0, max_attempts=1)
    async with bench.worker() as worker, _stub(worker) as stub:
        await bench.sent(job)
        busy = await stub.GetWorkerStatus(pb.GetWorkerStatusRequest(), timeout=2.0)
        await bench.ends(job)
    assert (8, 7, pb.WORKER_STATE_ACTIVE) == (busy.slot_count, busy.free_slot_count, busy.state)
    assert ["simulated/simulated-drip"] == list(busy.lanes)
    assert 1_000_000 == busy.running_worst_case_amount.nanos
    assert "worker-1" == busy.worker_id


async def test_many_readers_see_the_same(bench: Bench) -> None:
    """They share the run's log."""
    job = await bench.job("simulated:tokens=30,tps=12")
    async with bench.worker() as worker, _stub(worker) as stub:
        await bench.sent(job)
        cursor = await _queued_cursor(bench, job)
        calls = [_follow(stub, job, after=cursor) for _ in range(20)]
        seen = await asyncio.gather(*(_read(call) for call in calls))
    assert all(seen[0] == events for events in seen)
    assert seen[0][-1].ends_stream
