"""Postgres restarts, or stays away: everything goes on by itself, and nothing is bought twice."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest

from budget.core import Budget
from hourglass.jobs.v1.job_pb2 import JobState
from hourglass.jobs.v1.jobs_service_pb2 import WaitJobRequest
from launcher import postgres_binaries
from launcher.components import SIMULATED
from launcher.processes import Child
from launcher.stack import JOBS
from tests.model_server import requests_seen
from tests.postgres import TestDatabase, TestServer, server
from tests.scenarios.kills import assert_invariants
from tests.stacks import (
    NOT_SERVING,
    RETRY,
    SERVING,
    Caller,
    calling,
    count,
    funds,
    health,
    rows,
    spec_of,
    stack_on,
)
from tests.waiting import eventually

pytestmark = [pytest.mark.faults, pytest.mark.timeout(150)]

OUTAGES = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}
CALLS = 50
LEASE = 3.0
WRITERS = 16
WAIT_LIMIT = 5.0
PATIENCE = 10.0
"""Seconds after which everything has to go on."""
STOP_LIMIT, START_LIMIT = 20.0, 30.0
RENEWALS_FIRST = {"REAP_WAIT": "4"}
"""The reapers wait after a reconnect, as they do in production, so that whoever is alive comes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mortal:
    """A server of this module's own."""

    server: TestServer

    async def die(self) -> None:
        """As after a crash: connections are cut, nothing is written down."""
        await self._pg_ctl("stop", "--mode=immediate")

    async def come_back(self) -> None:
        """Recovers, and serves."""
        log = self.server.running.data_directory / "server.log"
        await self._pg_ctl("start", f"--log={log}")

    async def _pg_ctl(self, what: str, *options: str) -> None:
        running = self.server.running
        arguments = (what, "--wait", f"--pgdata={running.data_directory}", *options)
        budget = Budget.for_work(START_LIMIT)
        await asyncio.to_thread(lambda: running.binaries.run("pg_ctl", *arguments, budget=budget))


@pytest.fixture(scope="module")
def mortal() -> Iterator[Mortal]:
    """A server that a test may stop."""
    with server(postgres_binaries.embedded()) as running:
        yield Mortal(server=running)


@pytest.fixture
async def database(mortal: Mortal) -> AsyncIterator[TestDatabase]:
    """A fresh database on it."""
    async with mortal.server.database() as fresh:
        yield fresh


class Writer:
    """Has one job after the other made and done; sends again what fails with an outage."""

    def __init__(self, caller: Caller, number: int) -> None:
        self.done: list[str] = []
        self._caller = caller
        self._number = number

    async def run(self, stop: asyncio.Event) -> None:
        spec = spec_of("simulated:tokens=5,tps=20", unknown_outcome_policy=RETRY)
        while not stop.is_set():
            key = f"writer {self._number}, job {len(self.done)}"
            created = await through_outages(partial(self._caller.create, spec, key=key))
            job_id = created.job.job_id
            while not await self._is_done(job_id):
                pass
            self.done.append(job_id)

    async def _is_done(self, job_id: str) -> bool:
        request = WaitJobRequest(job_id=job_id)
        answer = await through_outages(lambda: self._caller.stub.WaitJob(request, timeout=WAIT_LIMIT))
        return bool(answer.job.state == JobState.JOB_STATE_SUCCEEDED)


async def through_outages(call: Callable[[], Awaitable[Any]]) -> Any:
    """What a call answers, once it is answered."""
    while True:
        try:
            return await call()
        except grpc.aio.AioRpcError as error:
            if error.code() not in OUTAGES:
                raise
            await asyncio.sleep(0.1)


@pytest.mark.scenario("O1")
async def test_after_a_restart_of_postgres_under_load_everything_goes_on_within_ten_seconds(
    mortal: Mortal, database: TestDatabase, tmp_path: Path
) -> None:
    two, stop = ("worker-1", "worker-2"), asyncio.Event()
    async with stack_on(database, tmp_path, workers=two) as stack, calling(stack.jobs) as caller:
        writers = [Writer(caller, number) for number in range(WRITERS)]
        writing = [asyncio.create_task(writer.run(stop)) for writer in writers]
        await eventually(lambda: all(len(writer.done) >= 3 for writer in writers), within=20.0)
        await mortal.die()
        await mortal.come_back()
        before = [len(writer.done) for writer in writers]
        # One that was under way, and one that was made afterwards.
        await eventually(
            lambda: all(len(writer.done) >= n + 2 for writer, n in zip(writers, before, strict=True)),
            within=PATIENCE,
        )
        stop.set()
        await asyncio.gather(*writing)
        await eventually(lambda: nothing_left(database), within=30.0)
        assert all(child.running for child in stack.children.values())
    jobs = [job for writer in writers for job in writer.done]
    assert len(jobs) == len(set(jobs)) == await count(database, "job_results")
    await assert_money_agrees(database)


@pytest.mark.scenario("O8")
async def test_fifty_answers_that_come_while_postgres_is_away_are_all_accepted_and_none_is_bought_twice(
    mortal: Mortal, database: TestDatabase, tmp_path: Path
) -> None:
    async with stack_on(database, tmp_path, worker=RENEWALS_FIRST, jobs=RENEWALS_FIRST) as stack:
        async with calling(stack.jobs) as caller:
            spec = spec_of("simulated-slow:tokens=5,tps=1", unknown_outcome_policy=RETRY)
            await asyncio.gather(*(caller.create(spec) for _ in range(CALLS)))
        provider = stack.models[SIMULATED]
        await eventually(lambda: requests_seen(provider)["open"] == CALLS, within=20.0)
        await mortal.die()
        gone = time.monotonic()
        processes = [stack.children[name] for name in (JOBS, "worker-1")]
        await eventually(lambda: all_say(processes, "readiness", NOT_SERVING), within=PATIENCE)
        assert await all_say(processes, "liveness", SERVING)
        await eventually(lambda: requests_seen(provider)["finished"] == CALLS, within=30.0)
        await eventually(lambda: time.monotonic() - gone > 2 * LEASE, within=2 * LEASE + 1)
        await mortal.come_back()
        await eventually(lambda: all_say(processes, "readiness", SERVING), within=PATIENCE)
        await eventually(lambda: nothing_left(database), within=30.0)
        assert all(child.running for child in stack.children.values())
        assert CALLS == requests_seen(provider)["count"]
    assert CALLS == await count(database, "job_results")
    sent = await rows(database, "SELECT outcome FROM hourglass.attempts WHERE send_time IS NOT NULL")
    assert ["SUCCEEDED"] * CALLS == [attempt["outcome"] for attempt in sent]
    await assert_money_agrees(database)


async def all_say(processes: Sequence[Child], service: str, status: int) -> bool:
    """Whether each of them says that of itself now."""
    return {status} == {await health(process.address, service) for process in processes}


async def nothing_left(database: TestDatabase) -> bool:
    return 0 == await count(database, "jobs")


async def assert_money_agrees(database: TestDatabase) -> None:
    """Nothing is reserved, and what is gone was captured."""
    has = await funds(database)
    assert (Decimal(0), has["funded"]) == (has["reserved"], has["available"] + has["captured"])
    await assert_invariants(database)
