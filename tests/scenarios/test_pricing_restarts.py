"""PricingService goes away and comes back."""

import time
from pathlib import Path

import grpc
import pytest

from budget.core import Budget
from launcher import components
from launcher.processes import Child
from tests.chaos_proxy import ChaosProxy
from tests.jobs import TENANT, Jobs, failure, jobs_server, pricing_server
from tests.postgres import TestDatabase
from tests.scenarios.stage import FUNDS

START_LIMIT = 40.0
STOP_LIMIT = 20.0
BACK_WITHIN = 2.0
OUTAGE = 1.5
"""Seconds: long enough for several attempts to connect, with ever longer pauses."""
OUT = frozenset({"PRICING_UNAVAILABLE", "UPSTREAM_TIMEOUT"})
POLICIES = '{"postgres": {"limit": 20}, "pricing": {"limit": 0.5}}'


async def pricing_process(logs: Path, listen: str) -> Child:
    """A PricingService in a process of its own."""
    command = components.pricing_service("pricing", {"LISTEN": listen})
    return await Child.start(command, logs=logs, budget=Budget.for_work(START_LIMIT))


async def keep_failing(jobs: Jobs, seconds: float) -> None:
    """Calls during the outage; each fails, typed, in its budget."""
    ends = time.monotonic() + seconds
    number = 0
    while time.monotonic() < ends:
        assert (await failure(jobs.create(f"out-{number}", timeout=2.0))).reason in OUT
        number += 1


async def served_again(jobs: Jobs) -> float:
    """Seconds until a create gets its price again, for callers that ask all the time."""
    started = time.monotonic()
    number = 0
    while time.monotonic() < started + 10 * BACK_WITHIN:
        try:
            await jobs.create(f"back-{number}", timeout=1.0)
        except grpc.aio.AioRpcError:
            number += 1
        else:
            break
    return time.monotonic() - started


@pytest.mark.faults
@pytest.mark.scenario("O7")
async def test_creates_get_prices_again_within_two_seconds_of_a_restart(
    database: TestDatabase, tmp_path: Path
) -> None:
    first = await pricing_process(tmp_path, components.ANY_PORT)
    async with jobs_server(database, pricing=first.address, policies=POLICIES) as jobs:
        await jobs.fund(TENANT, FUNDS)
        await jobs.create("before")
        await first.kill()
        await keep_failing(jobs, OUTAGE)
        second = await pricing_process(tmp_path, first.address)
        try:
            assert await served_again(jobs) < BACK_WITHIN
        finally:
            await second.stop(budget=Budget.for_work(STOP_LIMIT))


@pytest.mark.scenario("O7")
async def test_a_channel_that_connected_into_a_black_hole_is_not_stuck_there(database: TestDatabase) -> None:
    """A host that swallows everything accepts connections and never says a word: the attempt under way when
    it comes back is dead, and must not be waited for."""
    async with (
        pricing_server() as address,
        ChaosProxy.to_tcp("127.0.0.1", int(address.rpartition(":")[2])) as proxy,
        jobs_server(database, pricing=f"127.0.0.1:{proxy.port}", policies=POLICIES) as jobs,
    ):
        await jobs.fund(TENANT, FUNDS)
        await jobs.create("before")
        proxy.black_hole = True
        proxy.sever()
        await keep_failing(jobs, OUTAGE)
        proxy.black_hole = False
        assert await served_again(jobs) < BACK_WITHIN
