"""The pricing process: it starts, says where, answers, and ends in good order."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

if TYPE_CHECKING:
    from pathlib import Path


def start(*arguments: str, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "pricing_service", *arguments],
        env={**os.environ, "HOURGLASS_PRICING_LISTEN": "127.0.0.1:0", **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_process_says_where_it_serves_and_ends_with_0_on_sigterm() -> None:
    process = start()
    try:
        assert process.stdout is not None
        settings, line = (json.loads(process.stdout.readline()) for _ in range(2))
        assert (settings["event"], line["event"]) == ("settings", "serving")
        assert line["price_version"].endswith("-m0.2")
        with grpc.insecure_channel(line["address"]) as channel:
            health: Any = health_pb2_grpc.HealthStub(channel)
            answer = health.Check(
                health_pb2.HealthCheckRequest(service="hourglass.pricing.v1.PricingService"),
                timeout=5,
                wait_for_ready=True,
            )
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=15)
    assert (process.returncode, errors) == (0, "")


def test_wrong_settings_are_all_named_and_nothing_starts(tmp_path: Path) -> None:
    process = start(HOURGLASS_PRICING_MARKUP="-1", HOURGLASS_PRICING_DRAIN_GRACE="0")
    _, errors = process.communicate(timeout=15)
    assert process.returncode == 2
    assert "HOURGLASS_PRICING_MARKUP" in errors
    assert "HOURGLASS_PRICING_DRAIN_GRACE" in errors


def test_an_address_in_the_open_takes_the_flag_and_is_told_of_loudly() -> None:
    refused = start(HOURGLASS_PRICING_LISTEN="0.0.0.0:0")
    insecure = start("--insecure", HOURGLASS_PRICING_LISTEN="0.0.0.0:0", HOURGLASS_PRICING_LOG_FORMAT="json")
    try:
        _, errors = refused.communicate(timeout=15)
        assert insecure.stdout is not None
        events = [""]
        while events[-1] != "serving":
            events.append(json.loads(insecure.stdout.readline())["event"])
    finally:
        insecure.send_signal(signal.SIGTERM)
        insecure.communicate(timeout=15)

    assert refused.returncode == 2
    assert "HOURGLASS_PRICING_LISTEN: others can reach it, so it takes TLS and authentication" in errors
    assert any(event.startswith("INSECURE") for event in events)
    assert insecure.returncode == 0


def test_a_missing_catalog_says_how_to_make_one(tmp_path: Path) -> None:
    process = start(HOURGLASS_PRICING_CATALOG_DIRECTORY=str(tmp_path))
    output, _ = process.communicate(timeout=15)
    assert process.returncode == 1
    assert "make catalog" in output
