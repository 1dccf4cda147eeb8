"""Admission over a real socket: refused at once, with a reason and a delay, and no slot is ever lost."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from grpc_health.v1 import health_pb2, health_pb2_grpc
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from budget.core import Budget
from servicekit.admission import AdmissionControl, AdmissionLimits
from servicekit.call import call_of
from servicekit.gradient_limit import Bounds
from servicekit.health import Health
from servicekit.interceptor import RequestInterceptor
from servicekit.methods import Admission, Kind, MethodPolicy
from servicekit.request import Terms
from tests.integration.servicekit.metrics import counted
from tests.integration.servicekit.service import (
    SHAPES,
    STREAMING,
    Act,
    Answer,
    Context,
    Harness,
    method,
    serving,
)
from tests.waiting import eventually

LIMIT = 4


def policy(shape: str, admission: Admission) -> Mapping[str, MethodPolicy]:
    kind = Kind.STREAM if shape in STREAMING else Kind.UNARY
    return {method(shape): MethodPolicy(default=5.0, cap=10.0, kind=kind, admission=admission)}


class Dependency:
    """What handlers call: it hangs until it is released."""

    def __init__(self) -> None:
        self.released = asyncio.Event()
        self.waiting = 0

    async def __call__(self, _context: Context) -> bytes:
        self.waiting += 1
        try:
            await self.released.wait()
        finally:
            self.waiting -= 1
        return b"served"


async def quick(_context: Context) -> bytes:
    return b"quick"


async def admitted_after_a_look_up(context: Context) -> bytes:
    call = call_of(context)
    if "replay" in call.metadata:
        return b"replayed"
    call.admit()
    return b"created"


async def never_admitted(_context: Context) -> bytes:
    await asyncio.Event().wait()
    raise AssertionError


@asynccontextmanager
async def hung_server(
    dependency: Dependency, policies: Mapping[str, MethodPolicy] | None = None, **options: Any
) -> AsyncIterator[tuple[Harness, AdmissionControl]]:
    """A server whose limit is full of calls to a dependency that hangs."""
    acts: dict[bytes, Act] = {
        b"hang": dependency,
        b"quick": quick,
        b"create": admitted_after_a_look_up,
        b"never": never_admitted,
    }
    bounds = Bounds(minimum=LIMIT, initial=LIMIT, maximum=LIMIT)
    control = AdmissionControl(AdmissionLimits(adaptive=bounds, waiting=2, look_ups=2))
    async with serving(acts, policies=policies, admission=control, **options) as harness:
        for _ in range(LIMIT):
            harness.start("unary_unary", b"hang")
        await eventually(lambda: dependency.waiting == LIMIT)
        yield harness, control


def in_flight(control: AdmissionControl) -> int:
    return sum(slots.in_flight for slots in control.slots.values())


def retry_delay(answer: Answer) -> float:
    info = RetryInfo()
    assert any(detail.Unpack(info) for detail in answer.status.details)
    return info.retry_delay.ToTimedelta().total_seconds()


def refusal(answer: Answer) -> str:
    info = ErrorInfo()
    assert any(detail.Unpack(info) for detail in answer.status.details)
    return info.metadata["refusal"]


async def test_when_a_dependency_hangs_the_next_caller_is_told_at_once_when_to_come_back() -> None:
    dependency = Dependency()
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    async with hung_server(dependency, meter=provider.get_meter("test")) as (harness, control):
        started = time.monotonic()
        answer = await harness.ask("unary_unary", b"quick")
        took = time.monotonic() - started

        assert (grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED") == (answer.code, answer.reason)
        assert "concurrency" == refusal(answer)
        assert 0 < retry_delay(answer) <= 10
        assert took < 0.5
        assert LIMIT == counted(reader, "hourglass.admission.limit")
        assert LIMIT == counted(reader, "hourglass.admission.in_flight", hourglass_admission="normal")
        assert 1 == counted(reader, "hourglass.admission.refused", hourglass_refusal="concurrency")

        dependency.released.set()
        await eventually(lambda: in_flight(control) == 0)
        assert [b"quick"] == (await harness.ask("unary_unary", b"quick")).messages
    provider.shutdown()


async def test_exempt_methods_go_on_while_the_door_is_closed() -> None:
    exempt = policy("unary_stream_writer", Admission.EXEMPT)
    async with hung_server(Dependency(), exempt) as (harness, _):
        for _ in range(3 * LIMIT):
            answer = await harness.ask("unary_stream_writer", b"quick")
            assert grpc.StatusCode.OK is answer.code


async def test_health_answers_while_the_door_is_closed() -> None:
    control = AdmissionControl(AdmissionLimits(adaptive=Bounds(minimum=1, initial=1, maximum=1)))
    interceptor = RequestInterceptor({}, Terms(admission=control))
    server = grpc.aio.server(interceptors=[interceptor], options=[("grpc.so_reuseport", 0)])
    health_pb2_grpc.add_HealthServicer_to_server(Health(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    control.passage("/x/Y", Admission.NORMAL, Budget.for_work(60.0)).arrive()

    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        answer = await stub.Check(health_pb2.HealthCheckRequest(service="liveness"), timeout=5.0)
    await server.stop(0)

    assert health_pb2.HealthCheckResponse.SERVING == answer.status
    assert not control.refusals


async def test_calls_that_wait_have_a_count_of_their_own() -> None:
    waiting = policy("unary_stream_generator", Admission.COUNT)
    dependency = Dependency()
    async with hung_server(dependency, waiting) as (harness, _):
        for _ in range(2):
            harness.start("unary_stream_generator", b"hang")
        await eventually(lambda: dependency.waiting == LIMIT + 2)

        answer = await harness.ask("unary_stream_generator", b"hang")

    assert ("OVERLOADED", "waiting_calls") == (answer.reason, refusal(answer))


async def test_a_replay_is_answered_while_the_door_is_closed_and_a_new_call_is_not() -> None:
    deferred = policy("stream_unary", Admission.DEFERRED)
    dependency = Dependency()
    async with hung_server(dependency, deferred) as (harness, control):
        replay = await harness.ask("stream_unary", b"create", metadata=(("replay", "yes"),))
        new = await harness.ask("stream_unary", b"create")
        dependency.released.set()
        await eventually(lambda: in_flight(control) == 0)
        later = await harness.ask("stream_unary", b"create")

    assert [b"replayed"] == replay.messages
    assert ("OVERLOADED", "concurrency") == (new.reason, refusal(new))
    assert [b"created"] == later.messages


async def test_calls_that_never_ask_to_be_admitted_hold_up_only_their_own_kind() -> None:
    deferred = policy("stream_unary", Admission.DEFERRED)
    dependency = Dependency()
    async with hung_server(dependency, deferred) as (harness, control):
        dependency.released.set()
        await eventually(lambda: in_flight(control) == 0)
        for _ in range(2):
            harness.start("stream_unary", b"never")
        await eventually(lambda: in_flight(control) == 2)

        same = await harness.ask("stream_unary", b"create")
        other = await harness.ask("unary_unary", b"quick")

    assert ("OVERLOADED", "look_ups") == (same.reason, refusal(same))
    assert [b"quick"] == other.messages


@pytest.mark.parametrize("shape", SHAPES)
async def test_a_storm_of_cancelled_calls_leaks_no_slot(shape: str) -> None:
    dependency = Dependency()
    bounds = Bounds(minimum=64, initial=64, maximum=64)
    control = AdmissionControl(AdmissionLimits(adaptive=bounds))
    async with serving({b"hang": dependency, b"quick": quick}, admission=control) as harness:
        for _ in range(3):
            calls = [harness.start(shape, b"hang") for _ in range(32)]
            await eventually(lambda: dependency.waiting == 32)
            assert 32 == in_flight(control)
            for call in calls:
                call.cancel()
            await eventually(lambda: in_flight(control) == 0)
        answer = await harness.ask(shape, b"quick")

    assert grpc.StatusCode.OK is answer.code
    assert 0 == in_flight(control)


@pytest.mark.parametrize("shape", SHAPES)
async def test_every_ending_gives_its_slot_back(shape: str) -> None:
    async def raises(_context: Context) -> bytes:
        raise ValueError("inside")

    async def aborts(context: Context) -> bytes:
        await context.abort(grpc.StatusCode.NOT_FOUND, "none")

    async def cancels_itself(_context: Context) -> bytes:
        raise asyncio.CancelledError

    control = AdmissionControl(AdmissionLimits())
    acts: dict[bytes, Act] = {
        b"ok": quick,
        b"raises": raises,
        b"aborts": aborts,
        b"cancel": cancels_itself,
        b"hangs": never_admitted,
    }
    async with serving(acts, admission=control) as harness:
        for request in acts:
            await harness.ask(shape, request, timeout=0.3 if request == b"hangs" else 5.0)
            await eventually(lambda: in_flight(control) == 0)
    assert {} == control.refusals
