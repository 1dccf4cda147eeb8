"""A thousand comings and goings over two failovers: what every reader keeps is what the store holds."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random, randrange
from typing import Final, Self

import grpc
import pytest

from budget.core import Budget
from hourglass.jobs.v1.event_pb2 import JobEvent
from hourglass.jobs.v1.job_pb2 import AttemptOutcome, Job, JobState
from hourglass_client import AsyncClient, Client
from launcher.stack import Stack
from tests.chaos_proxy import ChaosProxy
from tests.postgres import TestDatabase
from tests.stacks import RETRY, START_LIMIT, connected, rows, spec_of, stack_on
from tests.system.readers import (
    AsyncReader,
    BlockingReader,
    Comings,
    Phase,
    Reader,
    StubReader,
    come_and_go,
    log_of,
)
from tests.waiting import eventually

pytestmark = [pytest.mark.faults, pytest.mark.timeout(150)]

THREE: Final = ("worker-1", "worker-2", "worker-3")
TOKENS: Final = 150
LONG: Final = f"simulated:tokens={TOKENS},tps=24"
# Text lives in its worker for up to a second before it is durable: a death takes some with it.
LATE_FLUSHES: Final = {"FLUSH_INTERVAL": "1.0"}
ALL: Final = 1000
EACH_ATTEMPT: Final = 120
EACH_DEATH: Final = 50
LAST_IN_FLIGHT: Final = 3
"""Events that a worker has told and not stored when it is killed, at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """To each server, by each kind of client."""

    channels: Sequence[grpc.aio.Channel]
    clients: Sequence[AsyncClient]
    blocking: Sequence[Client]

    @classmethod
    async def open(cls, opened: AsyncExitStack, targets: Sequence[str]) -> Self:
        """Connected for as long as `opened` lasts."""
        return cls(
            channels=[await opened.enter_async_context(connected(target)) for target in targets],
            clients=[await opened.enter_async_context(AsyncClient.connect(target)) for target in targets],
            blocking=[opened.enter_context(Client.connect(target)) for target in targets],
        )

    def readers(self, job_id: str, comings: Comings, *, share: int) -> list[Reader]:
        """Of each kind: `share` of those that want all, and one that wants states only."""
        kinds = [(StubReader, self.channels), (AsyncReader, self.clients)]
        return [
            BlockingReader(self.blocking, job_id, comings),
            *(kind(ways, job_id, comings) for kind, ways in kinds for _ in range(share)),
            *(kind(ways, job_id, comings, states_only=True) for kind, ways in kinds),
        ]


@pytest.mark.scenario("W1", "W2", "W3", "W7")
async def test_what_readers_keep_over_1000_comings_and_two_dead_workers_is_what_the_store_holds(
    database: TestDatabase, tmp_path: Path
) -> None:
    seed = int(os.environ.get("SEED") or randrange(2**32))
    print(f"SEED={seed}")  # noqa: T201 - the same moments again, for whoever looks at a failure
    random, comings = Random(seed), Comings()
    async with (
        stack_on(database, tmp_path, workers=THREE, worker=LATE_FLUSHES) as stack,
        AsyncClient.connect(stack.jobs) as client,
        ways_to(await two_servers(stack), Random(random.random())) as (steady, broken),
    ):
        spec = spec_of(LONG, unknown_outcome_policy=RETRY, max_output_token_count=TOKENS)
        job_id = (await client.create(spec)).job.job_id
        readers = [
            *steady.readers(job_id, comings, share=5),
            *broken.readers(job_id, comings, share=3),
        ]
        async with asyncio.TaskGroup() as group:
            for reader in readers:
                group.create_task(come_and_go(reader, Random(random.random())))
            for attempt in (1, 2):
                await kill_in_mid_answer(database, stack, comings, job_id, attempt)
        job = await client.get(job_id, attempts=True, content=True)
        log = await log_of(client, job_id)
        stored = await stored_events(database, job_id)
    came_everywhere(comings)
    text_died_twice(comings, log)
    assert JobState.JOB_STATE_SUCCEEDED == job.state
    assert ["UNKNOWN", "UNKNOWN", "SUCCEEDED"] == outcomes(job)
    assert stored == [row_of(event) for event in log]
    states = [event for event in log if event.HasField("state_changed")]
    for reader in readers:
        if reader.states_only:
            assert states == list(reader.kept)
        else:
            assert log == list(reader.kept)
            assert job.result.text == reader.text


async def two_servers(stack: Stack) -> Sequence[str]:
    """The addresses of the stack's server and of another one."""
    other = await stack.start_jobs("jobs-2", budget=Budget.for_work(START_LIMIT))
    return stack.jobs, other.address


async def kill_in_mid_answer(
    database: TestDatabase, stack: Stack, comings: Comings, job_id: str, attempt: int
) -> None:
    """Kill an attempt's worker when enough readers have come to it, and text is told that is not stored."""

    async def holds_more_than_the_store() -> bool:
        worker.signal(signal.SIGSTOP)  # what it has told and what it has stored stand still
        found = await rows(database, "SELECT last_sequence FROM hourglass.jobs WHERE id = $1::uuid", job_id)
        assert found, "the job has ended before its worker could be killed"
        if comings.front - found[0]["last_sequence"] >= LAST_IN_FLIGHT:
            return True
        worker.signal(signal.SIGCONT)
        return False

    await eventually(lambda: comings.phases[Phase(attempt, served=True)] >= EACH_ATTEMPT, within=30.0)
    worker = stack.children[comings.worker]
    await eventually(holds_more_than_the_store)
    worker.signal(signal.SIGKILL)
    comings.died()


def came_everywhere(comings: Comings) -> None:
    """To every attempt, and to each dead worker's job, before the next one had it."""
    came = comings.phases
    assert ALL <= len(comings.moments)
    assert EACH_ATTEMPT <= min(came[Phase(attempt, served=True)] for attempt in (1, 2, 3)), came
    assert EACH_DEATH <= min(came[Phase(attempt, served=False)] for attempt in (1, 2)), came
    assert EACH_DEATH <= comings.broken


def text_died_twice(comings: Comings, log: Sequence[JobEvent]) -> None:
    """Both workers took text with them that somebody had read, and somebody came back with a cursor in it,
    when the next attempt was under way."""
    opens = {
        event.sequence >> 32: event.last_durable_sequence for event in log if event.sequence % 2**32 == 1
    }
    for front in comings.fronts_at_deaths:
        epoch = front >> 32
        durable = opens[min(later for later in opens if later > epoch)]
        assert durable < front
        came = [moment for moment in comings.moments if durable < moment.cursor <= front]
        assert any(moment.front >> 32 > epoch for moment in came), came


def outcomes(job: Job) -> Sequence[str]:
    return [AttemptOutcome.Name(one.outcome).removeprefix("ATTEMPT_OUTCOME_") for one in job.attempts]


async def stored_events(database: TestDatabase, job_id: str) -> Sequence[tuple[int, str, int, str]]:
    """The log's rows themselves."""
    query = (
        "SELECT sequence, kind, attempt_number, coalesce(text, '') AS text FROM hourglass.job_events "
        "WHERE job_id = $1::uuid ORDER BY sequence"
    )
    return [
        (row["sequence"], row["kind"], row["attempt_number"], row["text"])
        for row in await rows(database, query, job_id)
    ]


def row_of(event: JobEvent) -> tuple[int, str, int, str]:
    kind = (event.WhichOneof("event") or "").upper()
    return event.sequence, kind, event.attempt_number, event.token_delta.text


@asynccontextmanager
async def ways_to(addresses: Sequence[str], random: Random) -> AsyncIterator[tuple[Ways, Ways]]:
    """Ways to two servers: one on which connections hold, and one on which they break now and then."""
    async with AsyncExitStack() as opened:
        proxies = [
            await opened.enter_async_context(ChaosProxy.to_tcp(*host_and_port(each))) for each in addresses
        ]
        steady = await Ways.open(opened, addresses)
        broken = await Ways.open(opened, [f"127.0.0.1:{proxy.port}" for proxy in proxies])
        severing = asyncio.create_task(sever(proxies, random))
        try:
            yield steady, broken
        finally:
            severing.cancel()
            await asyncio.wait({severing})


async def sever(proxies: Sequence[ChaosProxy], random: Random) -> None:
    """The network breaks all connections to one of the servers now and then."""
    while True:
        await asyncio.sleep(random.uniform(0.1, 0.6))
        random.choice(proxies).sever()


def host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)
