"""Claims: free slots, tenants in turn, backlogs, wake-ups, lanes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from jobs_store.identifiers import TenantId
from jobs_store.states import JobState
from jobs_store.wakeups import jobs_ready
from tests.integration.worker.workers import attempts, outcomes
from tests.waiting import eventually

if TYPE_CHECKING:
    from tests.integration.worker.workers import Bench

SLOW_POLL = {"poll_interval": 30.0}


@pytest.mark.scenario("C8")
async def test_a_backlog_is_worked_off_without_waiting_for_polls(bench: Bench) -> None:
    """Every slot that comes free is filled again at once."""
    jobs = [await bench.job("simulated-fast:tokens=2") for _ in range(40)]
    async with bench.worker(slots=4, **SLOW_POLL):
        details = [await bench.ends(job, within=15.0) for job in jobs]
    assert {("SUCCEEDED",)} == {tuple(outcomes(detail)) for detail in details}


async def test_no_more_runs_go_on_than_there_are_slots(bench: Bench) -> None:
    """Four slots, four calls at once."""
    jobs = [await bench.job("simulated:tokens=4,tps=8") for _ in range(12)]
    async with bench.worker(slots=4):
        details = [await bench.ends(job, within=20.0) for job in jobs]
    spans = [(attempt.claim_time, attempt.end_time) for detail in details for attempt in attempts(detail)]
    at_once = [sum(begin <= moment < end for begin, end in spans) for moment, _ in spans]
    assert 4 == max(at_once)


async def test_a_signal_starts_a_job_long_before_the_next_poll(bench: Bench) -> None:
    """The lane is known by name, so that its signal is heard."""
    route = bench.route(models=("simulated-fast", "simulated-*"))
    async with bench.worker(routes=(route,), **SLOW_POLL) as worker:
        await eventually(lambda: worker.listening)
        job = await bench.job("simulated-fast:tokens=2")
        await bench.notify(jobs_ready("simulated/simulated-fast"))
        detail = await bench.ends(job, within=5.0)
    assert JobState.SUCCEEDED is detail.job.state


async def test_a_lane_that_only_a_pattern_matches_is_found(bench: Bench) -> None:
    """By looking for what waits, with the poll."""
    async with bench.worker() as worker:
        await eventually(lambda: worker.listening)
        job = await bench.job("simulated-fast:tokens=2")
        detail = await bench.ends(job, within=5.0)
    assert JobState.SUCCEEDED is detail.job.state


async def test_a_lane_of_another_provider_is_left_alone(bench: Bench) -> None:
    """Its jobs wait for a worker that serves it."""
    job = await bench.job("simulated-fast")
    async with bench.worker(routes=(bench.route(name="elsewhere"),)):
        other = await bench.store.create(
            model="simulated-fast", price=bench.price("elsewhere/simulated-fast")
        )
        await bench.ends(other)
    assert JobState.QUEUED is (await bench.get(job)).job.state


async def test_every_tenant_gets_its_turn(bench: Bench) -> None:
    """A tenant with many jobs ahead does not keep another one waiting."""
    small = await bench.store.tenant(TenantId("small"))
    for _ in range(30):
        await bench.job("simulated:tokens=2,tps=20")
    job = await bench.job("simulated:tokens=2,tps=20", small)
    async with bench.worker(slots=2):
        await bench.ends(job, small, within=10.0)
        ended = await bench.count("SELECT count(*) FROM hourglass.finished_jobs")
    assert ended <= 6


async def test_two_workers_share_the_work_and_run_nothing_twice(bench: Bench) -> None:
    """One accepted attempt a job, between them."""
    jobs = [await bench.job("simulated-fast:tokens=2") for _ in range(60)]
    async with bench.worker(slots=4), bench.worker(slots=4, name="worker-2"):
        details = await asyncio.gather(*(bench.ends(job, within=20.0) for job in jobs))
    assert {("SUCCEEDED",)} == {tuple(outcomes(detail)) for detail in details}
    assert {"worker-1", "worker-2"} == {a.worker_id for detail in details for a in attempts(detail)}
