"""A process tells Prometheus how near it is to its limits, and what became of its budgets."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import grpc
from prometheus_client.parser import text_string_to_metric_families

from hourglass.pricing.v1.pricing_service_pb2 import GetPriceRequest
from hourglass.pricing.v1.pricing_service_pb2_grpc import PricingServiceStub

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

WITHIN = 10.0


@contextmanager
def pricing(**variables: str) -> Iterator[Mapping[str, str]]:
    """A process; its addresses by the event that told of them."""
    process = subprocess.Popen(
        [sys.executable, "-m", "pricing_service"],
        env={**os.environ, "HOURGLASS_PRICING_LISTEN": "127.0.0.1:0", **variables},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        told: dict[str, str] = {}
        while "serving" not in told:
            line = json.loads(process.stdout.readline())
            if "address" in line:
                told[line["event"]] = line["address"]
        yield told
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=15)
    assert process.returncode == 0


def scraped(address: str) -> dict[str, list[Any]]:
    """Samples by name."""
    with urlopen(f"http://{address}/metrics", timeout=WITHIN) as answer:
        text = answer.read().decode()
    found: dict[str, list[Any]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample)
    return found


def test_requests_budgets_and_the_loop_are_scraped() -> None:
    with pricing(HOURGLASS_PRICING_METRICS_LISTEN="127.0.0.1:0") as told:
        with grpc.insecure_channel(told["serving"]) as channel:
            stub = PricingServiceStub(channel)
            request = GetPriceRequest(model="gpt-5-mini", input_token_bound=1, max_output_token_count=1)
            for _ in range(3):
                stub.GetPrice(request, timeout=WITHIN, wait_for_ready=True)
        samples = scraped(told["serving metrics"])
    (calls,) = samples["rpc_server_call_duration_seconds_count"]
    assert (3.0, "ok") == (calls.value, calls.labels["hourglass_ending"])
    assert [3.0] == [one.value for one in samples["hourglass_budget_at_entry_seconds_count"]]
    assert [0.0] == [one.value for one in samples["hourglass_server_in_flight"]]
    assert samples["hourglass_loop_lag_seconds_count"]
    assert samples["process_resident_memory_bytes"]


def test_without_a_metrics_address_no_port_is_open() -> None:
    with pricing() as told:
        assert {"serving"} == told.keys()


def test_an_address_of_metrics_that_is_taken_is_named() -> None:
    with pricing(HOURGLASS_PRICING_METRICS_LISTEN="127.0.0.1:0") as told:
        second = subprocess.run(
            [sys.executable, "-m", "pricing_service"],
            env={
                **os.environ,
                "HOURGLASS_PRICING_LISTEN": "127.0.0.1:0",
                "HOURGLASS_PRICING_METRICS_LISTEN": told["serving metrics"],
            },
            capture_output=True,
            text=True,
            timeout=WITHIN,
            check=False,
        )
    assert 1 == second.returncode
    assert f"cannot listen on {told['serving metrics']}: Address already in use" in second.stdout
