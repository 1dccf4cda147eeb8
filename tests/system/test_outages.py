"""What JobService needs is not there: it says so, in time, loses nothing, and comes back by itself."""

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import grpc
import pytest

from budget.core import Budget
from launcher import components
from launcher.processes import Child
from launcher.readiness import until_ready
from launcher.roles import REQUEST, WORKER, role_dsn
from launcher.stack import PRICING
from presentation.rpc_failure import RpcFailure
from tests.postgres import TestDatabase
from tests.stacks import (
    NOT_SERVING,
    SERVING,
    START_LIMIT,
    Caller,
    calling,
    count,
    health,
    spec_of,
    stack_on,
)
from tests.waiting import eventually

pytestmark = pytest.mark.timeout(120)


class LateServer:
    """The database's server, as seen through a folder in which its socket appears when we say so."""

    def __init__(self, database: TestDatabase, folder: Path) -> None:
        parts = urlsplit(database.owner)
        self._socket = Path(parse_qs(parts.query)["host"][0]) / ".s.PGSQL.5432"
        self._folder = folder
        self.owner = f"postgresql://hourglass@{parts.path}?host={folder}&port=5432"

    def appear(self) -> None:
        (self._folder / self._socket.name).symlink_to(self._socket)


@asynccontextmanager
async def jobs_service(owner_dsn: str, logs: Path) -> AsyncIterator[Child]:
    command = components.jobs_service(
        "jobs",
        {},
        database=role_dsn(owner_dsn, REQUEST),
        reaper_database=role_dsn(owner_dsn, WORKER),
        pricing="127.0.0.1:1",
    )
    child = await Child.start(command, logs=logs, budget=Budget.for_work(START_LIMIT))
    try:
        yield child
    finally:
        await child.stop(budget=Budget.for_work(20))


async def test_a_server_without_its_database_lives_says_why_and_becomes_ready_when_it_comes(
    database: TestDatabase, tmp_path: Path
) -> None:
    late = LateServer(database, tmp_path)
    async with jobs_service(late.owner, tmp_path / "logs") as jobs:
        assert SERVING == await health(jobs.address, "liveness")
        assert NOT_SERVING == await health(jobs.address, "readiness")
        log = tmp_path / "logs" / "jobs.log"
        await eventually(lambda: "DATABASE_UNAVAILABLE" in log.read_text(), within=10.0)
        async with calling(jobs.address) as caller:
            assert "DATABASE_UNAVAILABLE" == await refusal_of_create(caller)
        assert jobs.running
        late.appear()
        await until_ready(jobs.address, budget=Budget.for_work(15))
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [] == [line for line in lines if "exception" in line]


async def refusal_of_create(caller: Caller) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        await caller.create(spec_of("simulated-fast"))
    return RpcFailure.of(failure.value).reason


async def test_a_create_without_prices_fails_in_its_budget_and_leaves_nothing(
    database: TestDatabase, tmp_path: Path
) -> None:
    async with stack_on(database, tmp_path, workers=()) as stack, calling(stack.jobs) as caller:
        await stack.children[PRICING].kill()
        started = time.monotonic()
        assert "PRICING_UNAVAILABLE" == await refusal_of_create(caller)
        assert time.monotonic() - started < 2.0
        assert (0, 0) == (await count(database, "jobs"), await count(database, "idempotency_keys"))
