"""A short call whose server dies."""

from pathlib import Path
from typing import Any

import asyncpg
import grpc
import pytest

from hourglass.jobs.v1 import jobs_service_pb2 as pb
from launcher.stack import JOBS
from tests.jobs import message
from tests.postgres import TestDatabase
from tests.stacks import calling, funds, stack_on
from tests.waiting import eventually

pytestmark = [pytest.mark.faults, pytest.mark.timeout(120)]
GRACE = {"CALL_GRACE": "0.5"}
DEADLINE = 4.0


async def open_calls(database: TestDatabase) -> int:
    """Calls that nobody has settled."""
    connection = await asyncpg.connect(database.owner)
    try:
        return int(
            await connection.fetchval("SELECT count(*) FROM hourglass.calls WHERE settle_time IS NULL")
        )
    finally:
        await connection.close()


async def started(stub: Any) -> Any:
    """A stream of text that goes on, after its first token."""
    request = pb.GenerateRequest(
        model="simulated:tokens=60,tps=20", messages=[message()], max_output_token_count=60
    )
    stream = stub.Generate(request, timeout=DEADLINE)
    async for response in stream:
        if response.HasField("token_delta"):
            break
    return stream


@pytest.mark.scenario("M11")
async def test_a_call_whose_server_is_killed_is_settled_by_whoever_reaps_and_costs_its_tenant_nothing(
    database: TestDatabase, tmp_path: Path
) -> None:
    async with (
        stack_on(database, tmp_path, worker=GRACE, jobs=GRACE) as stack,
        calling(stack.jobs) as caller,
    ):
        stream = await started(caller.stub)
        assert 1 == await open_calls(database)
        assert (await funds(database))["reserved"] > 0
        await stack.children[JOBS].kill()
        with pytest.raises(grpc.aio.AioRpcError):
            await _to_the_end(stream)

        async def settled() -> bool:
            return await open_calls(database) == 0

        await eventually(settled, within=DEADLINE + 15)
        left = await funds(database)
        assert 0 == left["reserved"] == left["captured"]
        assert left["funded"] == left["available"]


async def _to_the_end(stream: Any) -> None:
    async for _ in stream:
        pass
