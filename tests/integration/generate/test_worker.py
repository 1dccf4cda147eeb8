"""WorkerService.Generate by itself: what it refuses, what it tells; it reads no faster than its caller."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any
from uuid import uuid4

import grpc
from grpc import StatusCode

from hourglass.jobs.v1 import job_pb2
from hourglass.jobs.v1 import jobs_service_pb2 as jobs_pb
from hourglass.worker.v1 import worker_service_pb2 as pb
from hourglass.worker.v1.worker_service_pb2_grpc import WorkerServiceStub
from servicekit.channels import client_options
from servicekit.wire_money import amount_of
from tests.integration.generate.callers import Callers, started
from tests.jobs import Failure, failure_of, message
from tests.store import CARD
from tests.waiting import eventually
from wire.rate_card import rate_card_message


def request_of(model: str, **changed: Any) -> pb.GenerateRequest:
    """What JobService would ask."""
    asked = jobs_pb.GenerateRequest(model=model, messages=[message()], max_output_token_count=64)
    values: dict[str, Any] = {
        "call_id": str(uuid4()),
        "tenant_id": "demo",
        "request": asked,
        "provider_rate_card": rate_card_message(CARD),
        "input_token_estimate": 7,
        **changed,
    }
    return pb.GenerateRequest(**values)


@asynccontextmanager
async def worker_stub(callers: Callers) -> AsyncIterator[Any]:
    """The worker, past JobService."""
    async with grpc.aio.insecure_channel(callers.worker.address, options=client_options()) as channel:
        yield WorkerServiceStub(channel)


async def refused(stream: Any) -> Failure:
    """How a stream failed before its first message."""
    try:
        received = await stream.read()
    except grpc.aio.AioRpcError as error:
        return failure_of(error)
    raise AssertionError(f"it answered {received}")


async def test_it_tells_the_send_the_text_the_usage_and_what_that_costs(callers: Callers) -> None:
    async with worker_stub(callers) as worker:
        stream = worker.Generate(request_of("simulated-fast:tokens=3"), timeout=10)
        told = [received async for received in stream]
        trailers = dict(await stream.trailing_metadata())
    assert ["sent", "token_delta", "token_delta", "token_delta", "result"] == [
        received.WhichOneof("message") for received in told
    ]
    assert "simulated" == told[0].sent.provider
    result = told[-1].result
    cost = (10 * result.usage.input_token_count + 40 * result.usage.output_token_count) * Decimal("1e-6")
    assert (cost, job_pb2.COST_BASIS_REPORTED) == (
        amount_of(result.provider_cost.amount),
        result.provider_cost.basis,
    )
    assert result.provider_request_id
    assert str(trailers["budget-ledger"]).startswith("simulated/chat.completions ")


async def test_a_request_that_makes_no_sense_is_refused_with_everything_that_is_wrong(
    callers: Callers,
) -> None:
    async with worker_stub(callers) as worker:
        bad = pb.GenerateRequest(call_id="x", tenant_id="A", input_token_estimate=-1)
        failure = await refused(worker.Generate(bad, timeout=10))
    assert (StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT") == failure.kind
    assert {
        "call_id",
        "tenant_id",
        "request",
        "request.max_output_token_count",
        "input_token_estimate",
        "provider_rate_card",
    } == set(failure.violations)


async def test_a_worker_that_drains_begins_no_call(callers: Callers) -> None:
    async with worker_stub(callers) as worker:
        await worker.Drain(pb.DrainRequest(), timeout=10)
        failure = await refused(worker.Generate(request_of("simulated-fast"), timeout=10))
    assert (StatusCode.UNAVAILABLE, "DRAINING") == failure.kind


async def test_a_caller_who_does_not_read_holds_up_the_provider_and_fills_no_memory(callers: Callers) -> None:
    model = "simulated-fast:tokens=100000"
    stream = callers.call(model, max_output_token_count=100_000)
    call_id = (await started(stream)).call_id
    sent = [0]

    async def stalled() -> bool:
        seen = await callers.seen(call_id)
        sent.append(seen["tokens_sent"] if seen else 0)
        await asyncio.sleep(0.2)
        return sent[-1] == sent[-2] > 0

    await eventually(stalled, within=20)
    assert sent[-1] < 50_000
    stream.cancel()
    await callers.settled(call_id)
