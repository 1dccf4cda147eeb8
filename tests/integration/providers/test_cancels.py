"""A caller that leaves closes its connection to the provider at once, and never harms another call."""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING, Any

import pytest

from budget.core import Budget
from budget.ledger import Outcome
from tests.integration.providers.calls import read, request
from tests.model_server import request_of, requests_seen
from tests.waiting import eventually
from worker.providers.openai_compatible import OpenAICompatible

if TYPE_CHECKING:
    from worker.providers.routes import ProviderRoute

CLOSED = "closed_by_client"


async def _ended(server: str, key: str) -> dict[str, Any] | None:
    seen = await request_of(server, key)
    return seen if seen and seen["state"] != "open" else None


@pytest.mark.parametrize("model", ["simulated-stall-first", "simulated-stall-mid", "simulated-slow"])
async def test_a_cancel_closes_the_connection_within_100_ms(
    provider: OpenAICompatible, simulated: str, model: str
) -> None:
    asked, budget = request(model), Budget.for_work(10.0)
    call = asyncio.create_task(read(provider, asked, budget=budget))
    await eventually(lambda: request_of(simulated, asked.request_key))
    cancelled_at = time.time()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    returned_after = time.time() - cancelled_at
    ended = await eventually(lambda: _ended(simulated, asked.request_key))
    assert ended is not None
    assert ended["state"] == CLOSED
    assert ended["ended_time"] - cancelled_at < 0.1
    assert returned_after < 0.1
    assert [spend.outcome for spend in budget.ledger.spends] == [Outcome.CANCELLED]


async def test_leaving_the_block_early_closes_the_connection(
    provider: OpenAICompatible, simulated: str
) -> None:
    asked = request("simulated-slow")
    async with provider.stream(asked, budget=Budget.for_work(10.0)) as events:
        await anext(aiter(events))
    ended = await eventually(lambda: _ended(simulated, asked.request_key))
    assert ended is not None
    assert ended["state"] == CLOSED


async def test_an_error_in_the_block_is_not_taken_for_the_providers(
    provider: OpenAICompatible, simulated: str
) -> None:
    asked = request("simulated-slow")

    async def fail_inside() -> None:
        async with provider.stream(asked, budget=Budget.for_work(10.0)) as events:
            await anext(aiter(events))
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        await fail_inside()
    ended = await eventually(lambda: _ended(simulated, asked.request_key))
    assert ended is not None
    assert ended["state"] == CLOSED


async def test_200_random_cancels_leave_the_connections_usable(route: ProviderRoute, simulated: str) -> None:
    provider = OpenAICompatible(route.model_copy(update={"first_token": 10.0, "between_tokens": 10.0}))
    moments = random.Random(7)

    async def cancelled_call() -> None:
        call = asyncio.create_task(read(provider, request("simulated:tps=200,tokens=30")))
        _done, pending = await asyncio.wait({call}, timeout=moments.uniform(0.0, 0.15))
        if pending:
            call.cancel()
        await asyncio.gather(call, return_exceptions=True)

    for _ in range(10):
        await asyncio.gather(*(cancelled_call() for _ in range(20)))
    answers = await asyncio.gather(
        *(read(provider, request("simulated-fast:tokens=10,first=0.05")) for _ in range(20))
    )
    await provider.close(budget=Budget.for_work(5.0))
    assert [answer.deltas for answer in answers] == [10] * 20
    await eventually(lambda: requests_seen(simulated)["open"] == 0)
