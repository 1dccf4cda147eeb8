"""Processes that are killed in the middle of a short call: its money is put right all the same."""

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import grpc
import pytest

from hourglass.jobs.v1.job_pb2 import Message, Role
from hourglass.jobs.v1.jobs_service_pb2 import GenerateRequest, GenerateResponse
from launcher.components import SIMULATED
from launcher.stack import JOBS, Stack
from tests.model_server import request_of
from tests.postgres import TestDatabase
from tests.stacks import calling, funds, rows, stack_on
from tests.waiting import eventually

pytestmark = [pytest.mark.faults, pytest.mark.timeout(120)]
DRIP = "simulated-drip:tps=50"
QUICK: Mapping[str, str] = {"CALL_GRACE": "0.5", "GENERATE_TOKENS_PER_SECOND": "1000"}
CALL_LIMIT = 4.0
NOTHING = Decimal(0)


async def begin(stub: Any) -> tuple[Any, str, int]:
    """A short call of which five tokens have come: the stream, the call's id, the tokens."""
    request = GenerateRequest(
        model=DRIP,
        messages=[Message(role=Role.ROLE_USER, content="Say something.")],
        max_output_token_count=500,
    )
    stream = stub.Generate(request, timeout=CALL_LIMIT)
    call_id, tokens = "", 0
    while tokens < 5:
        message: GenerateResponse = await stream.read()
        call_id = call_id or message.started.call_id
        tokens += message.token_delta.token_count
    return stream, call_id, tokens


async def to_the_end(stream: Any) -> None:
    """Reads a stream until it ends."""
    while await stream.read() is not grpc.aio.EOF:
        pass


async def settled(database: TestDatabase, call_id: str, *, within: float) -> Mapping[str, Any]:
    """The call's row once somebody settled it."""

    async def row() -> Mapping[str, Any] | None:
        (found,) = await rows(database, "SELECT * FROM hourglass.calls WHERE id = $1::text::uuid", call_id)
        return found if found["settle_time"] is not None else None

    found: Mapping[str, Any] | None = await eventually(row, within=within)
    assert found is not None
    return found


async def closed(stack: Stack, call_id: str) -> None:
    """Waits until the provider has seen its client leave."""

    async def gone() -> bool:
        seen = await request_of(stack.models[SIMULATED], call_id)
        return seen is not None and seen["state"] == "closed_by_client"

    await eventually(gone)


async def test_a_worker_that_is_killed_in_mid_answer_leaves_an_unknown_call_that_is_settled_at_once(
    database: TestDatabase, tmp_path: Path
) -> None:
    async with stack_on(database, tmp_path, jobs=QUICK) as stack, calling(stack.jobs) as caller:
        stream, call_id, _ = await begin(caller.stub)
        await stack.children["worker-1"].kill()
        with pytest.raises(grpc.aio.AioRpcError) as broken:
            await to_the_end(stream)
        assert grpc.StatusCode.UNAVAILABLE == broken.value.code()
        row = await settled(database, call_id, within=3.0)
        await closed(stack, call_id)
    assert ("UNKNOWN", "WORKER_GONE", "UNKNOWN") == (row["outcome"], row["cause"], row["cost_basis"])
    assert NOTHING < row["captured"] < row["amount"]
    has = await funds(database)
    assert (NOTHING, row["captured"]) == (has["reserved"], has["captured"])


async def test_a_server_that_is_killed_in_mid_answer_leaves_its_call_to_the_reaper(
    database: TestDatabase, tmp_path: Path
) -> None:
    quick = {"CALL_GRACE": "0.5"}
    async with stack_on(database, tmp_path, jobs=QUICK, worker=quick) as stack:
        async with calling(stack.jobs) as caller:
            _, call_id, _ = await begin(caller.stub)
            before = await funds(database)
            await stack.children[JOBS].kill()
        # The worker lets the provider go, although nobody told it: its caller's connection is gone.
        await closed(stack, call_id)
        row = await settled(database, call_id, within=CALL_LIMIT + 5.0)
    assert before["reserved"] == row["amount"]
    assert ("UNKNOWN", "NOT_REPORTED", "UNKNOWN") == (row["outcome"], row["cause"], row["cost_basis"])
    assert (NOTHING, row["amount"]) == (row["captured"], row["released"])
    assert NOTHING < row["worst_case"]
    assert (row["settle_time"] - row["deadline"]).total_seconds() >= 0.5
    has = await funds(database)
    assert (NOTHING, NOTHING, has["funded"]) == (has["reserved"], has["captured"], has["available"])
