"""SIGKILL of JobService between setting money aside and settling it: of creates and of short calls."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest

from budget.core import Budget
from hourglass.jobs.v1.job_pb2 import Message, Role
from hourglass.jobs.v1.jobs_service_pb2 import GenerateRequest
from launcher.components import SIMULATED
from launcher.processes import together
from launcher.stack import Stack
from tests.chaos_proxy import ChaosProxy
from tests.model_server import requests_seen
from tests.postgres import TestDatabase
from tests.proxied import proxy_to, through
from tests.scenarios.kills import COMMIT, assert_invariants
from tests.stacks import START_LIMIT, Caller, calling, count, funds, rows, spec_of, stack_on
from tests.waiting import eventually

pytestmark = [pytest.mark.faults, pytest.mark.timeout(150)]

RESERVES_FOR_A_JOB = b"INSERT INTO hourglass.reservations"
RESERVES_FOR_A_CALL = b"INSERT INTO hourglass.calls"
SETTLES_A_CALL = b"UPDATE hourglass.calls"
CALL_LIMIT = 6.0
QUICK = {"CALL_GRACE": "0.5", "GENERATE_TOKENS_PER_SECOND": "1000"}
PATIENT = {
    "POLICIES": '{"postgres": {"limit": 20}, "pricing": {"limit": 10}, "worker.connect": {"limit": 5}}'
}
Hold = Callable[[ChaosProxy], None]


def before_the_commit(statement: bytes, proxy: ChaosProxy) -> None:
    """Nothing moves from the COMMIT that follows the statement on."""
    proxy.when(statement, partial(proxy.when, COMMIT, proxy.freeze))


def after_the_commit(statement: bytes, proxy: ChaosProxy) -> None:
    """The COMMIT that follows the statement holds, and its answer does not come."""
    proxy.when(statement, partial(proxy.when, COMMIT, proxy.withhold))


def before(statement: bytes, proxy: ChaosProxy) -> None:
    """Nothing moves from the statement on."""
    proxy.when(statement, proxy.freeze)


def nowhere(_proxy: ChaosProxy) -> None:
    """Nothing holds it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A JobService that will be held, and killed."""

    name: str
    address: str
    proxy: ChaosProxy


@asynccontextmanager
async def server(stack: Stack, database: TestDatabase, name: str, hold: Hold) -> AsyncIterator[Server]:
    """One of them; only its request path is held."""
    async with proxy_to(database.request) as proxy:
        child = await stack.start_jobs(
            name,
            budget=Budget.for_work(START_LIMIT),
            environment={"DATABASE_URL": through(proxy, database.request), **PATIENT},
        )
        hold(proxy)
        yield Server(name=name, address=child.address, proxy=proxy)


async def killed(
    stack: Stack,
    database: TestDatabase,
    name: str,
    hold: Hold,
    *,
    ask: Callable[[Caller], Coroutine[Any, Any, object]],
    reached: Callable[[ChaosProxy], Coroutine[Any, Any, object]],
) -> None:
    """Asks a server of its own for something, and kills it where it is held."""
    async with server(stack, database, name, hold) as held, calling(held.address) as caller:
        asking = asyncio.create_task(ask(caller))
        await eventually(partial(reached, held.proxy), within=15.0)
        await stack.children[name].kill()
        held.proxy.sever()
        await asyncio.gather(asking, return_exceptions=True)


async def exists(database: TestDatabase, query: str, *arguments: object) -> bool:
    return bool(await rows(database, query, *arguments))


@pytest.mark.scenario("S3", "M2")
async def test_a_create_whose_server_is_killed_was_made_once_or_not_at_all_and_its_key_tells(
    database: TestDatabase, tmp_path: Path
) -> None:
    holds: Mapping[str, Hold] = {
        "uncommitted": partial(before_the_commit, RESERVES_FOR_A_JOB),
        "unanswered": partial(after_the_commit, RESERVES_FOR_A_JOB),
        "answered": nowhere,
    }
    of_key = "SELECT job_id FROM hourglass.idempotency_keys k JOIN hourglass.job_facts f ON f.id = k.job_id "
    async with stack_on(database, tmp_path, jobs=QUICK) as stack:

        async def kill(key: str) -> None:
            async def reached(proxy: ChaosProxy) -> bool:
                if key == "uncommitted":
                    return not proxy.armed
                return await exists(database, f"{of_key} WHERE f.labels ->> 'key' = $1", key)

            await killed(stack, database, key, holds[key], ask=partial(create, key=key), reached=reached)

        await together(*(kill(key) for key in holds))
        assert 2 == await count(database, "job_facts") == await count(database, "reservations")
        async with calling(stack.jobs) as caller:
            again = {key: await create(caller, key=key) for key in holds}

        async def all_ended() -> bool:
            return len(holds) == await count(database, "finished_jobs")

        await eventually(all_ended, within=20.0)
    assert {"uncommitted": False, "unanswered": True, "answered": True} == {
        key: answer.replayed for key, answer in again.items()
    }
    assert len(holds) == await count(database, "job_results") == await count(database, "reservations")
    has = await funds(database)
    assert (Decimal(0), has["funded"]) == (has["reserved"], has["available"] + has["captured"])
    await assert_invariants(database)


async def create(caller: Caller, *, key: str) -> Any:
    return await caller.create(spec_of("simulated-fast:tokens=3", labels={"key": key}), key=key)


UNSENT, SILENT, UNSETTLED, UNTOLD = (
    "simulated-fast:tokens=3",
    "simulated-stall-first",
    "simulated-fast:tokens=4",
    "simulated-fast:tokens=5",
)
CALLS: Mapping[str, tuple[str, Hold]] = {
    UNSENT: ("reserved", partial(after_the_commit, RESERVES_FOR_A_CALL)),
    SILENT: ("sent", nowhere),
    UNSETTLED: ("unsettled", partial(before, SETTLES_A_CALL)),
    UNTOLD: ("settled", partial(after_the_commit, SETTLES_A_CALL)),
}
"""By model: the server's name, and where it is held."""


@pytest.mark.scenario("M2")
async def test_a_short_call_whose_server_is_killed_is_settled_once_wherever_that_was(
    database: TestDatabase, tmp_path: Path
) -> None:
    async with stack_on(database, tmp_path, jobs=QUICK, worker={"CALL_GRACE": "0.5"}) as stack:

        async def kill(model: str) -> None:
            name, hold = CALLS[model]
            reached = partial(_reached, stack, database, model)
            await killed(stack, database, name, hold, ask=partial(generate, model=model), reached=reached)

        await together(*(kill(model) for model in CALLS))

        async def all_settled() -> bool:
            return not await exists(database, "SELECT id FROM hourglass.calls WHERE settle_time IS NULL")

        await eventually(all_settled, within=20.0)
        seen = [call["model"] for call in requests_seen(stack.models[SIMULATED])["requests"]]
    found = {row["model"]: row for row in await rows(database, "SELECT * FROM hourglass.calls")}
    assert set(CALLS) == set(found)
    lost = ("UNKNOWN", "NOT_REPORTED", Decimal(0))
    for model in (UNSENT, SILENT, UNSETTLED):
        row = found[model]
        assert lost == (row["outcome"], row["cause"], row["captured"]), model
    assert "SUCCEEDED" == found[UNTOLD]["outcome"]
    assert sorted([SILENT, UNSETTLED, UNTOLD]) == sorted(seen)
    has = await funds(database)
    assert (Decimal(0), found[UNTOLD]["captured"]) == (has["reserved"], has["captured"])
    assert has["funded"] == has["available"] + has["captured"]
    await assert_invariants(database)


async def _reached(stack: Stack, database: TestDatabase, model: str, proxy: ChaosProxy) -> bool:
    match model:
        case "simulated-stall-first":
            every = requests_seen(stack.models[SIMULATED])["requests"]
            return any(call["model"] == model for call in every)
        case "simulated-fast:tokens=4":
            return not proxy.armed
        case _:
            settled = "settle_time IS NOT NULL" if model == UNTOLD else "true"
            query = f"SELECT id FROM hourglass.calls WHERE model = $1 AND {settled}"
            return await exists(database, query, model)


async def generate(caller: Caller, *, model: str) -> None:
    """Reads a short call until it breaks off."""
    message = Message(role=Role.ROLE_USER, content="Say something.")
    request = GenerateRequest(model=model, messages=[message], max_output_token_count=64)
    stream = caller.stub.Generate(request, timeout=CALL_LIMIT)
    while await stream.read() is not grpc.aio.EOF:
        pass
