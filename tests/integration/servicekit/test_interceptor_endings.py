"""Status, reason, log line and span agree on how a request ended, for every kind of RPC."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import grpc
import pytest
from opentelemetry.trace import StatusCode as SpanStatus

from budget.policy import Policy
from budget.spend import spend
from hourglass.budget.v1.ledger_pb2 import BudgetEnding
from servicekit.call import call_of
from servicekit.errors import FieldViolation, InvalidRequest
from servicekit.methods import Kind, MethodPolicy
from tests.integration.servicekit.service import SHAPES, STREAMING, Answer, Context, Harness, method, serving

SECRET = "postgres://hourglass:hunter2@db.internal/jobs"
PRICING = Policy(dependency="pricing", method="GetPrice", limit=0.02)
PATIENT = Policy(dependency="pricing", method="ListPrices", limit=5.0)


class NoFunds(Exception):
    reason = "INSUFFICIENT_FUNDS"
    subject = "tenant:demo"


async def ok(_context: Context) -> bytes:
    return b"last"


async def own_error(_context: Context) -> bytes:
    raise NoFunds("12 USD are missing")


async def invalid(_context: Context) -> bytes:
    raise InvalidRequest(FieldViolation("spec.model", "is required"))


async def hang(_context: Context) -> bytes:
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


async def hang_on_a_dependency(context: Context) -> bytes:
    async with spend(call_of(context).budget, PRICING):
        await asyncio.Event().wait()
    raise AssertionError("unreachable")


async def hang_on_a_patient_policy(context: Context) -> bytes:
    async with spend(call_of(context).budget, PATIENT):
        await asyncio.Event().wait()
    raise AssertionError("unreachable")


async def ignore_the_first_cancel(_context: Context) -> bytes:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        await asyncio.Event().wait()
    raise AssertionError("unreachable")


async def stray_cancel(_context: Context) -> bytes:
    raise asyncio.CancelledError


async def crash(_context: Context) -> bytes:
    raise ValueError(f"cannot connect to {SECRET}")


async def abort(context: Context) -> bytes:
    context.set_trailing_metadata((("x-note", "kept"),))
    await context.abort(grpc.StatusCode.NOT_FOUND, "nothing here")
    raise AssertionError("unreachable")


async def leave_a_code(context: Context) -> bytes:
    context.set_code(grpc.StatusCode.NOT_FOUND)
    context.set_details("nothing here")
    return b"ignored"


async def raw_upstream_deadline(_context: Context) -> bytes:
    raise grpc.aio.AioRpcError(
        grpc.StatusCode.DEADLINE_EXCEEDED, grpc.aio.Metadata(), grpc.aio.Metadata(), "Deadline Exceeded"
    )


async def raw_upstream_error(_context: Context) -> bytes:
    raise grpc.aio.AioRpcError(
        grpc.StatusCode.NOT_FOUND, grpc.aio.Metadata(), grpc.aio.Metadata(), f"no such row in {SECRET}"
    )


ACTS = {
    act.__name__.encode(): act
    for act in (
        ok,
        own_error,
        invalid,
        hang,
        hang_on_a_dependency,
        hang_on_a_patient_policy,
        ignore_the_first_cancel,
        stray_cancel,
        crash,
        abort,
        leave_a_code,
        raw_upstream_deadline,
        raw_upstream_error,
    )
}


async def just_ask(harness: Harness, shape: str, request: bytes) -> Answer:
    return await harness.ask(shape, request)


async def ask_briefly(harness: Harness, shape: str, request: bytes) -> Answer:
    return await harness.ask(shape, request, timeout=0.15)


async def cancel_when_started(harness: Harness, shape: str, request: bytes) -> Answer:
    call = harness.start(shape, request)
    await harness.servicer.started.wait()
    call.cancel()
    return await harness.finish(shape, call)


async def cut_when_started(harness: Harness, shape: str, request: bytes) -> Answer:
    call = harness.start(shape, request)
    await harness.servicer.started.wait()
    harness.drain.begin()
    harness.drain.cut()
    return await harness.finish(shape, call)


async def ask_while_draining(harness: Harness, shape: str, request: bytes) -> Answer:
    harness.drain.begin()
    return await harness.ask(shape, request)


@dataclass(frozen=True, kw_only=True)
class Case:
    act: Callable[[Context], Awaitable[bytes]]
    ask: Callable[[Harness, str, bytes], Awaitable[Answer]] = just_ask
    code: str
    reason: str = ""
    ending: str
    server_error: bool = False
    cap: float = 10.0
    answered_by_us: bool = True


CASES = {
    "success": Case(act=ok, code="OK", ending="ok"),
    "known error": Case(
        act=own_error, code="RESOURCE_EXHAUSTED", reason="INSUFFICIENT_FUNDS", ending="error"
    ),
    "invalid request": Case(act=invalid, code="INVALID_ARGUMENT", reason="INVALID_ARGUMENT", ending="error"),
    "own budget": Case(
        act=hang,
        cap=0.1,  # not the caller's deadline: with that, core answers first when the machine is busy
        code="DEADLINE_EXCEEDED",
        reason="BUDGET_EXHAUSTED",
        ending="budget_exhausted",
        server_error=True,
    ),
    "own budget inside a spend": Case(
        act=hang_on_a_patient_policy,
        cap=0.1,
        code="DEADLINE_EXCEEDED",
        reason="BUDGET_EXHAUSTED",
        ending="budget_exhausted",
        server_error=True,
    ),
    "dependency's limit": Case(
        act=hang_on_a_dependency,
        code="DEADLINE_EXCEEDED",
        reason="UPSTREAM_TIMEOUT",
        ending="upstream_timeout",
        server_error=True,
    ),
    "dependency's raw deadline": Case(
        act=raw_upstream_deadline,
        code="DEADLINE_EXCEEDED",
        reason="UPSTREAM_TIMEOUT",
        ending="upstream_timeout",
        server_error=True,
    ),
    "dependency's raw error": Case(
        act=raw_upstream_error, code="INTERNAL", reason="INTERNAL", ending="error", server_error=True
    ),
    "caller's cancel": Case(
        act=hang, ask=cancel_when_started, code="CANCELLED", ending="caller_cancelled", answered_by_us=False
    ),
    "caller's deadline": Case(
        act=ignore_the_first_cancel,
        ask=ask_briefly,
        code="DEADLINE_EXCEEDED",
        ending="caller_deadline",
        server_error=True,
        answered_by_us=False,
    ),
    "stray cancel": Case(
        act=stray_cancel,
        code="INTERNAL",
        reason="SPURIOUS_CANCEL",
        ending="spurious_cancel",
        server_error=True,
    ),
    "fault": Case(act=crash, code="INTERNAL", reason="INTERNAL", ending="error", server_error=True),
    "abort": Case(act=abort, code="NOT_FOUND", reason="NOT_FOUND", ending="error"),
    "code left in the context": Case(act=leave_a_code, code="NOT_FOUND", reason="NOT_FOUND", ending="error"),
    "cut by the drain": Case(
        act=hang,
        ask=cut_when_started,
        code="UNAVAILABLE",
        reason="DRAINING",
        ending="draining",
        server_error=True,
    ),
    "refused by the drain": Case(
        act=ok,
        ask=ask_while_draining,
        code="UNAVAILABLE",
        reason="DRAINING",
        ending="draining",
        server_error=True,
    ),
}


def capped(shape: str, cap: float, *, resumable: bool = False) -> dict[str, MethodPolicy]:
    kind = Kind.STREAM if shape in STREAMING else Kind.UNARY
    return {method(shape): MethodPolicy(default=None, cap=cap, kind=kind, resumable=resumable)}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_status_log_and_span_agree_on_the_ending(case: Case, shape: str) -> None:
    async with serving(ACTS, policies=capped(shape, case.cap)) as harness:
        answer = await case.ask(harness, shape, case.act.__name__.encode())
        line, span = await harness.line(), await harness.span()

    assert (case.code, case.reason) == (answer.code.name, answer.reason)
    assert (case.code, case.reason, case.ending) == (line["code"], line["reason"], line["ending"])
    assert f"test.v1.TestService/{shape}" == line["method"] == span.name
    assert ("demo", "anonymous") == (line["tenant"], line["user"]) or case.ask is ask_while_draining
    attributes = span.attributes or {}
    assert case.code == attributes["rpc.response.status_code"]
    assert case.ending == attributes["hourglass.ending"]
    assert (SpanStatus.ERROR if case.server_error else SpanStatus.UNSET) is span.status.status_code
    if case.answered_by_us:
        assert f"BUDGET_ENDING_{case.ending.upper()}" == BudgetEnding.Name(answer.ledger.ending)
        assert line["ledger"] == answer.trailers["budget-ledger"]
    assert "hunter2" not in f"{answer.details}{answer.trailers}"


@pytest.mark.parametrize("shape", STREAMING)
async def test_what_was_sent_before_the_ending_arrives(shape: str) -> None:
    async with serving(ACTS) as harness:
        assert [b"first", b"last"] == (await harness.ask(shape, b"ok")).messages
        assert [b"first"] == (await harness.ask(shape, b"own_error")).messages


@pytest.mark.parametrize("shape", ["unary_stream_generator", "stream_stream_generator"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_a_generator_is_closed_in_its_own_task_before_the_request_ends(case: Case, shape: str) -> None:
    async with serving(ACTS, policies=capped(shape, case.cap)) as harness:
        await case.ask(harness, shape, case.act.__name__.encode())
        await harness.line()
        servicer = harness.servicer

        assert servicer.served_in == servicer.closed_in


async def test_an_abort_keeps_the_trailers_that_were_set_before() -> None:
    async with serving(ACTS) as harness:
        answer = await harness.ask("unary_unary", b"abort")

    assert "kept" == answer.trailers["x-note"]
    assert "nothing here" == answer.details


async def test_a_hidden_abort_still_ends_the_call_once() -> None:
    async def hide(context: Context) -> bytes:
        try:
            await context.abort(grpc.StatusCode.ABORTED, "no")
        except Exception:  # noqa: BLE001 - what careless handlers do
            raise ValueError("something else") from None

    async with serving({b"hide": hide}) as harness:
        answer = await harness.ask("unary_unary", b"hide")

        assert (grpc.StatusCode.ABORTED, "no") == (answer.code, answer.details)
        assert "ABORTED" == (await harness.line())["code"]


async def test_a_fault_stands_in_the_log_with_its_error() -> None:
    async with serving(ACTS) as harness:
        await harness.ask("unary_unary", b"crash")
        line = await harness.line()

    assert "error" == line["log_level"]
    assert isinstance(line["exc_info"], ValueError)


async def test_our_answer_is_there_before_core_answers_for_us() -> None:
    async with serving(ACTS) as harness:
        answer = await harness.ask("unary_unary", b"hang", timeout=1.0)

    assert (grpc.StatusCode.DEADLINE_EXCEEDED, "BUDGET_EXHAUSTED") == (answer.code, answer.reason)


async def test_a_resumable_stream_ends_with_resume_when_the_callers_deadline_nears() -> None:
    shape = "unary_stream_writer"
    async with serving(ACTS, policies=capped(shape, 60.0, resumable=True)) as harness:
        answer = await harness.ask(shape, b"hang", timeout=1.0)

    assert (grpc.StatusCode.UNAVAILABLE, "RESUME") == (answer.code, answer.reason)


async def test_a_resumable_stream_that_comes_with_no_time_left_is_told_to_resume() -> None:
    shape = "unary_stream_writer"
    async with serving(ACTS, policies=capped(shape, 0.01, resumable=True)) as harness:
        answer = await harness.ask(shape, b"hang", timeout=None)

    assert (grpc.StatusCode.UNAVAILABLE, "RESUME") == (answer.code, answer.reason)
    assert not harness.servicer.started.is_set()


@pytest.mark.parametrize("shape", STREAMING)
async def test_a_resumable_stream_ends_with_resume_when_it_reaches_its_cap(shape: str) -> None:
    async with serving(ACTS, policies=capped(shape, 0.1, resumable=True)) as harness:
        answer = await harness.ask(shape, b"hang", timeout=None)
        line, span = await harness.line(), await harness.span()

    assert (grpc.StatusCode.UNAVAILABLE, "RESUME") == (answer.code, answer.reason)
    assert ("UNAVAILABLE", "RESUME", "budget_exhausted") == (line["code"], line["reason"], line["ending"])
    assert SpanStatus.UNSET is span.status.status_code


@pytest.mark.parametrize("shape", STREAMING)
async def test_a_resumable_stream_ends_with_resume_as_soon_as_the_server_drains(shape: str) -> None:
    async with serving(ACTS, policies=capped(shape, 60.0, resumable=True)) as harness:
        call = harness.start(shape, b"hang", timeout=None)
        await harness.servicer.started.wait()
        harness.drain.begin()
        answer = await harness.finish(shape, call)

        assert (grpc.StatusCode.UNAVAILABLE, "RESUME") == (answer.code, answer.reason)
        assert "draining" == (await harness.line())["ending"]


async def test_other_calls_get_the_grace_and_are_told_that_it_began() -> None:
    async def wait_for_the_drain(context: Context) -> bytes:
        await call_of(context).draining.wait()
        return b"in time"

    async with serving({b"wait": wait_for_the_drain}) as harness:
        call = harness.start("unary_unary", b"wait")
        await harness.servicer.started.wait()
        harness.drain.begin()

        assert [b"in time"] == (await harness.finish("unary_unary", call)).messages
        assert await harness.drain.idle(within=5.0)


async def test_a_reader_that_stalls_does_not_outlive_the_budget() -> None:
    async def flood(context: Context) -> bytes:
        while True:
            await context.write(b"x" * 65536)

    async with serving({b"flood": flood}) as harness:
        harness.start("unary_stream_writer", b"flood", timeout=0.4)
        line = await harness.line()

        assert "DEADLINE_EXCEEDED" == line["code"]
        assert line["ending"] in {"budget_exhausted", "caller_deadline"}
        assert await harness.drain.idle(within=5.0)


async def test_a_caller_that_leaves_during_a_write_is_no_fault(caplog: pytest.LogCaptureFixture) -> None:
    async def flood(context: Context) -> bytes:
        while True:
            await context.write(b"x" * 65536)

    async with serving({b"flood": flood}) as harness:
        call = harness.start("unary_stream_writer", b"flood")
        await harness.servicer.started.wait()
        await asyncio.sleep(0.05)  # long enough to fill the window: the flood itself gives no signal
        call.cancel()
        line = await harness.line()

    assert ("CANCELLED", "caller_cancelled") == (line["code"], line["ending"])
    assert [] == caplog.records
