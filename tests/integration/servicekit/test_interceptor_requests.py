"""What the interceptor gives to a handler, and what it refuses before one runs."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
import structlog
from google.rpc.error_details_pb2 import BadRequest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2, reflection_pb2_grpc

from budget.ledger import Outcome, Spend, parse_text
from hourglass.budget.v1.ledger_pb2 import SpendOutcome
from servicekit.call import Call, call_of
from servicekit.health import Health
from servicekit.interceptor import RequestInterceptor
from servicekit.methods import Kind, MethodPolicy
from servicekit.request import Terms, trusted
from tests.integration.servicekit.service import SERVICE, Context, method, serving

HOUR = 3600.0


class Recorder:
    """An act that keeps the call it was made with."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    async def __call__(self, context: Context) -> bytes:
        self.calls.append(call_of(context))
        return b"ok"


@pytest.mark.parametrize(
    ("timeout", "lowest", "highest"),
    [
        (None, 4.9, 5.0),  # the default
        (1.0, 0.9, 1.02),  # the caller's, which the wire rounds up
        (HOUR * 24 * 365, 9.9, 10.0),  # the cap
    ],
)
async def test_the_budget_is_the_callers_within_the_default_and_the_cap(
    timeout: float | None, lowest: float, highest: float
) -> None:
    recorder = Recorder()
    async with serving({b"x": recorder}) as harness:
        await harness.ask("unary_unary", b"x", timeout=timeout)

    (call,) = recorder.calls
    assert lowest <= call.budget.initial <= highest


async def test_a_request_that_cannot_be_answered_in_time_is_refused_before_the_handler_runs() -> None:
    recorder = Recorder()
    async with serving({b"x": recorder}) as harness:
        await harness.ask("unary_unary", b"x")  # opens the connection
        answer = await harness.ask("unary_unary", b"x", timeout=0.012)

    assert grpc.StatusCode.DEADLINE_EXCEEDED is answer.code
    assert 1 == len(recorder.calls)


async def test_a_budget_that_covers_no_more_than_the_answer_is_refused_before_the_handler_runs() -> None:
    recorder = Recorder()
    short = {method("unary_unary"): MethodPolicy(default=None, cap=0.01)}
    async with serving({b"x": recorder}, policies=short) as harness:
        answer = await harness.ask("unary_unary", b"x")

    assert (grpc.StatusCode.DEADLINE_EXCEEDED, "BUDGET_TOO_LOW") == (answer.code, answer.reason)
    assert [] == recorder.calls


async def test_a_call_carries_who_calls_from_where_and_its_metadata() -> None:
    recorder = Recorder()
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    metadata = (
        ("x-tenant-id", "acme-2"),
        ("x-user-id", "ann@acme"),
        ("traceparent", parent),
        ("tracestate", "vendor=1"),
        ("x-blob-bin", b"\x00"),
    )
    async with serving({b"x": recorder}) as harness:
        await harness.ask("unary_unary", b"x", metadata=metadata)
        span, line = await harness.span(), await harness.line()

    (call,) = recorder.calls
    assert ("acme-2", "ann@acme") == (call.principal.tenant, call.principal.user)
    assert f"/{SERVICE}/unary_unary" == call.method
    assert span.context is not None
    assert span.parent is not None
    assert "b7ad6b7169203331" == f"{span.parent.span_id:016x}"
    assert f"00-0af7651916cd43dd8448eb211c80319c-{span.context.span_id:016x}-01" == call.traceparent
    assert "vendor=1" == call.tracestate
    assert "acme-2" == call.metadata["x-tenant-id"]
    assert "x-blob-bin" not in call.metadata
    assert ("acme-2", "ann@acme") == (line["tenant"], line["user"])


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ((("x-tenant-id", "Acme"),), "x-tenant-id"),
        ((("x-tenant-id", ""),), "x-tenant-id"),
        ((("x-tenant-id", "a" * 64),), "x-tenant-id"),
        ((("x-tenant-id", "a"), ("x-tenant-id", "b")), "x-tenant-id"),
        ((("x-user-id", "two words"),), "x-user-id"),
    ],
)
async def test_a_malformed_identity_is_refused_by_its_name(metadata: Any, field: str) -> None:
    recorder = Recorder()
    async with serving({b"x": recorder}) as harness:
        answer = await harness.ask("unary_unary", b"x", metadata=metadata)

    assert (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT") == (answer.code, answer.reason)
    found = BadRequest()
    assert any(detail.Unpack(found) for detail in answer.status.details)
    assert [field] == [violation.field for violation in found.field_violations]
    assert [] == recorder.calls


async def test_an_unknown_method_says_so_with_a_reason_and_without_its_name_as_a_label() -> None:
    async with serving({}) as harness:
        nope: Any = harness.channel.unary_unary(f"/{SERVICE}/Nope")
        call = nope(b"x", timeout=5.0)
        answer = await harness.finish("unary_unary", call)
        line, span = await harness.line(), await harness.span()

    assert (grpc.StatusCode.UNIMPLEMENTED, "METHOD_NOT_FOUND") == (answer.code, answer.reason)
    assert "test.v1.TestService/Nope" == line["method"]
    assert "_OTHER" == span.name
    assert "test.v1.TestService/Nope" == (span.attributes or {})["rpc.method_original"]


async def test_ledger_spends_reach_the_caller_in_text_and_in_binary() -> None:
    async def spend_twice(context: Context) -> bytes:
        ledger = call_of(context).budget.ledger
        ledger.record(_spend("pricing", "GetPrice", Outcome.OK))
        ledger.record(_spend("postgres", "create_job", Outcome.SKIPPED_LOW))
        return b"ok"

    async with serving({b"x": spend_twice}) as harness:
        answer = await harness.ask("unary_unary", b"x", timeout=2.0)
        span = await harness.span()

    text = answer.trailers["budget-ledger"]
    assert isinstance(text, str)
    assert ["pricing", "postgres"] == [spend.dependency for spend in parse_text(text).spends]
    ledger = answer.ledger
    assert "test.v1.TestService/unary_unary" == ledger.method
    assert ["SPEND_OUTCOME_OK", "SPEND_OUTCOME_SKIPPED_LOW"] == [
        SpendOutcome.Name(spend.outcome) for spend in ledger.spends
    ]
    assert 0.012 == ledger.spends[0].took_duration.ToTimedelta().total_seconds()
    assert 1.9 < ledger.initial_duration.ToTimedelta().total_seconds() <= 2.02
    assert ["GetPrice", "create_job"] == [
        (event.attributes or {})["hourglass.dependency.method"] for event in span.events
    ]


def _spend(dependency: str, name: str, outcome: Outcome, took: float = 0.012) -> Spend:
    return Spend(
        dependency=dependency, method=name, remaining=1.8, limit=0.3, took=took, outcome=outcome, reason="r"
    )


async def test_the_fullest_ledger_and_the_longest_error_fit_the_clients_limit_together() -> None:
    class Wordy(Exception):
        reason = "INSUFFICIENT_FUNDS"
        subject = "s" * 4000
        retry_after = 1.0

        def __init__(self) -> None:
            self.metadata = {f"key{n}": "v" * 4000 for n in range(40)}
            super().__init__("ä" * 4000)

    async def fill(context: Context) -> bytes:
        for n in range(500):
            call_of(context).budget.ledger.record(_spend("d" * 40, f"{n:060}", Outcome.ERROR, took=n * 1e-6))
        raise Wordy

    async with serving({b"x": fill}) as harness:
        for _ in range(50):  # above the soft limit core refuses at random
            answer = await harness.ask("unary_unary", b"x")
            assert (grpc.StatusCode.RESOURCE_EXHAUSTED, "INSUFFICIENT_FUNDS") == (answer.code, answer.reason)
            assert len(answer.trailers["budget-ledger"]) <= 1024
            assert len(answer.trailers["budget-ledger-bin"]) <= 1024
            assert 500 == len(answer.ledger.spends) + answer.ledger.omitted_count


async def test_the_ledger_goes_only_to_trusted_callers_when_it_is_so_set() -> None:
    recorder = Recorder()
    async with serving({b"x": recorder}, ledger_for=trusted({"ops"})) as harness:
        stranger = await harness.ask("unary_unary", b"x")
        friend = await harness.ask("unary_unary", b"x", metadata=(("x-tenant-id", "ops"),))

        assert "budget-ledger" not in stranger.trailers
        assert "budget-ledger-bin" not in stranger.trailers
        assert "budget-ledger" in friend.trailers
        assert 2 == len(harness.lines())


async def test_a_handler_without_the_interceptor_is_told_what_is_missing() -> None:
    with pytest.raises(TypeError, match="without the request interceptor"):
        call_of(object())  # type: ignore[arg-type] # the point


async def test_authentication_spends_from_the_budget_too() -> None:
    async def never(_metadata: Any, _budget: Any) -> Any:
        await asyncio.Event().wait()

    async with serving({b"x": Recorder()}, authenticate=never) as harness:
        answer = await harness.ask("unary_unary", b"x", timeout=0.1)

    assert (grpc.StatusCode.DEADLINE_EXCEEDED, "BUDGET_EXHAUSTED") == (answer.code, answer.reason)


# --- services made by others, with real messages, through the interceptor ---

HEALTH_METHODS = {
    f"/grpc.health.v1.Health/{name}": MethodPolicy(default=5.0, cap=10.0, kind=kind)
    for name, kind in {"Check": Kind.UNARY, "Watch": Kind.STREAM}.items()
}
REFLECTION_METHOD = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"


@pytest.fixture
async def logs() -> AsyncIterator[list[Any]]:
    with structlog.testing.capture_logs() as captured:
        yield captured


@pytest.fixture
async def channel(logs: list[Any]) -> AsyncIterator[grpc.aio.Channel]:
    """To a server whose health and reflection are not exempt."""
    methods = {**HEALTH_METHODS, REFLECTION_METHOD: MethodPolicy(default=5.0, cap=9.0, kind=Kind.STREAM)}
    server = grpc.aio.server(
        interceptors=[RequestInterceptor(methods, Terms())], options=[("grpc.so_reuseport", 0)]
    )
    health = Health()
    health.set_ready(True)
    health_pb2_grpc.add_HealthServicer_to_server(health, server)
    reflection.enable_server_reflection([reflection.SERVICE_NAME], server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as to_it:
        yield to_it
    await server.stop(0)


async def test_health_watch_and_reflection_work_through_the_interceptor(
    channel: grpc.aio.Channel, logs: list[Any]
) -> None:
    health: Any = health_pb2_grpc.HealthStub(channel)
    watch = health.Watch(health_pb2.HealthCheckRequest())
    assert health_pb2.HealthCheckResponse.SERVING == (await watch.read()).status
    watch.cancel()

    stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)  # type: ignore[arg-type] # knows no aio
    info = stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")]))
    names = [service.name async for answer in info for service in answer.list_services_response.service]
    assert [reflection.SERVICE_NAME] == names
    assert "OK" in {entry["code"] for entry in logs if entry["event"] == "request"}


async def test_a_request_that_cannot_be_parsed_is_the_callers_fault(
    channel: grpc.aio.Channel, logs: list[Any]
) -> None:
    check: Any = channel.unary_unary("/grpc.health.v1.Health/Check")
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        await check(b"\xff\xff\xff", timeout=5.0)

    assert grpc.StatusCode.INVALID_ARGUMENT is failure.value.code()
    assert "request: cannot be parsed" == failure.value.details()
    assert ["INVALID_ARGUMENT"] == [entry["reason"] for entry in logs if entry["event"] == "request"]


async def test_an_exempt_method_has_no_call_and_no_log_line() -> None:
    async def without_a_call(context: Context) -> bytes:
        with pytest.raises(TypeError):
            call_of(context)
        return b"ok"

    policies = {method("unary_unary"): MethodPolicy(default=1.0, cap=1.0, exempt=True)}
    async with serving({b"x": without_a_call}, policies=policies) as harness:
        answer = await harness.ask("unary_unary", b"x")

        assert grpc.StatusCode.OK is answer.code
        assert [] == harness.lines()


async def test_a_served_method_without_a_policy_is_a_fault_that_only_the_log_names() -> None:
    async with serving({b"x": Recorder()}, without=("unary_unary",)) as harness:
        answer = await harness.ask("unary_unary", b"x")
        line = await harness.line()

    assert (grpc.StatusCode.INTERNAL, "INTERNAL") == (answer.code, answer.reason)
    assert "/test.v1.TestService/unary_unary has no MethodPolicy" == str(line["exc_info"].args[0])
    assert "MethodPolicy" not in answer.details
