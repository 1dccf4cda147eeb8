"""A collector that is down, or hangs, slows neither requests nor the end of a process beyond a bound."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import grpc
import pytest

from hourglass.pricing.v1.pricing_service_pb2 import GetPriceRequest
from hourglass.pricing.v1.pricing_service_pb2_grpc import PricingServiceStub
from pricing_service.app import TELEMETRY_STOP_LIMIT
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.faults, pytest.mark.timeout(60)]
CALLS = 200
REST_OF_THE_END = 3.0
"""What a process may take to end beside sending out its telemetry, on a machine that is busy."""


@contextmanager
def nobody(*, accepts: bool) -> Iterator[str]:
    """An address where nobody answers: nobody listens, or who listens says nothing."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        if accepts:
            silent.listen()
        yield f"http://127.0.0.1:{silent.getsockname()[1]}"


@pytest.mark.parametrize("accepts", [False, True], ids=["down", "hanging"])
async def test_a_lost_collector_costs_requests_nothing_and_the_end_a_bounded_time(
    tmp_path: Path, *, accepts: bool
) -> None:
    log = tmp_path / "log"
    with nobody(accepts=accepts) as collector, started(collector, log) as process:
        address = await eventually(lambda: where(log), within=10.0)
        slowest = await asyncio.to_thread(call_often, address)
        asked = time.monotonic()
        process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(process.wait, 30)
        ended = time.monotonic() - asked
    assert slowest < 1.0
    assert ended < TELEMETRY_STOP_LIMIT + REST_OF_THE_END
    assert 0 == process.returncode
    assert len(log.read_text().splitlines()) < CALLS + 30, "one line a request, and few about the collector"


@contextmanager
def started(collector: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "pricing_service"],
            env={
                **os.environ,
                "HOURGLASS_PRICING_LISTEN": "127.0.0.1:0",
                "OTEL_EXPORTER_OTLP_ENDPOINT": collector,
                "OTEL_BSP_SCHEDULE_DELAY": "50",
                "OTEL_METRIC_EXPORT_INTERVAL": "100",
            },
            stdout=output,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait(15)


def where(log: Path) -> str:
    """The address of the ready line; empty while there is none."""
    lines = map(json.loads, log.read_text().splitlines())
    return next((str(line["address"]) for line in lines if line["event"] == "serving"), "")


def call_often(address: str) -> float:
    """Seconds that the slowest of many calls took, each in a trace that is recorded."""
    request = GetPriceRequest(model="gpt-5-mini", input_token_bound=1, max_output_token_count=1)
    took = []
    with grpc.insecure_channel(address) as channel:
        stub = PricingServiceStub(channel)
        stub.GetPrice(request, timeout=10, wait_for_ready=True)
        for _ in range(CALLS):
            began = time.monotonic()
            stub.GetPrice(request, timeout=10)
            took.append(time.monotonic() - began)
    return max(took)
