"""A tenant that asks too often is refused before anything is done, and told when to come back."""

from typing import Any

import grpc
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from servicekit.methods import Admission
from servicekit.rate_limit import RateLimits
from tests.integration.servicekit.metrics import counted
from tests.integration.servicekit.service import Context, serving
from tests.integration.servicekit.test_admission_door import policy, retry_delay


async def served(_context: Context) -> bytes:
    return b"served"


def of(tenant: str) -> dict[str, Any]:
    return {"metadata": (("x-tenant-id", tenant),)}


async def test_a_tenant_beyond_its_rate_is_told_when_to_come_back() -> None:
    reader = InMemoryMetricReader()
    meter = MeterProvider([reader]).get_meter("test")
    limits = RateLimits(0.5, burst=4.0)
    async with serving({b"x": served}, rates=limits, meter=meter) as harness:
        first = [await harness.ask("unary_unary", b"x", **of("busy")) for _ in range(2)]
        answer = await harness.ask("unary_unary", b"x", **of("busy"))
        other = await harness.ask("unary_unary", b"x", **of("calm"))

    assert [grpc.StatusCode.OK] * 2 == [each.code for each in first]
    assert (grpc.StatusCode.RESOURCE_EXHAUSTED, "RATE_LIMITED") == (answer.code, answer.reason)
    assert 0 < retry_delay(answer) <= 4.0
    assert grpc.StatusCode.OK == other.code
    assert 3 == len(harness.servicer.served_in)
    assert 1 == counted(reader, "hourglass.rate_limit.refusals", rpc_method="test.v1.TestService/unary_unary")


@pytest.mark.parametrize("shape", ["unary_stream_writer", "stream_stream_generator"])
async def test_a_stream_takes_one_token_as_it_begins(shape: str) -> None:
    async with serving({b"x": served}, rates=RateLimits(0.001, burst=1.0)) as harness:
        first = await harness.ask(shape, b"x", **of("a"))
        second = await harness.ask(shape, b"x", **of("a"))

    assert (grpc.StatusCode.OK, [b"first", b"served"]) == (first.code, first.messages)
    assert ("RATE_LIMITED", []) == (second.reason, second.messages)


async def test_operators_are_let_through() -> None:
    limits = RateLimits(0.001, burst=1.0)
    async with serving(
        {b"x": served}, policies=policy("unary_unary", Admission.EXEMPT), rates=limits
    ) as harness:
        answers = [await harness.ask("unary_unary", b"x", **of("ops")) for _ in range(3)]

    assert [grpc.StatusCode.OK] * 3 == [each.code for each in answers]
