"""Short calls that break off: whoever leaves, the provider is let go, and the money is put right."""

import asyncio
import random
import time
from decimal import Decimal
from typing import Any

import pytest
from grpc import StatusCode

from servicekit.wire_money import amount_of
from tests.integration.generate.callers import (
    FUNDS,
    NOTHING,
    TENANT,
    Callers,
    first,
    heard,
    open_callers,
    started,
)
from tests.postgres import TestDatabase
from tests.waiting import eventually

CLOSED_WITHIN = 0.1
"""Seconds between the caller's leaving and the end of the provider's connection."""


async def closed_after(callers: Callers, call_id: str, left: float) -> float:
    """Seconds after `left` (of the wall clock, which the provider notes) until its connection was closed."""

    async def closed() -> dict[str, Any] | None:
        seen = await callers.seen(call_id)
        return seen if seen is not None and seen["state"] == "closed_by_client" else None

    seen: dict[str, Any] | None = await eventually(closed)
    assert seen is not None
    return float(seen["ended_time"]) - left


@pytest.mark.scenario("M11")
async def test_a_caller_who_leaves_closes_the_providers_connection_and_pays_for_what_came(
    callers: Callers,
) -> None:
    model = "simulated-drip:tps=100"
    took = []
    for _ in range(5):
        before = await callers.funds()
        stream = callers.call(model)
        got = await first(stream, tokens=5)
        left = time.time()
        stream.cancel()
        took.append(await closed_after(callers, got.call_id, left))
        row = await callers.settled(got.call_id)
        assert ("CANCELLED", "CALLER_GONE") == (row["outcome"], row["cause"])
        # What was on its way when the caller left was delivered too: a few tokens, not the whole answer.
        charges = [await callers.charge_of(model, tokens) for tokens in range(got.tokens, 64)]
        assert row["captured"] in charges
        assert ("UNKNOWN", NOTHING) == (row["cost_basis"], row["cost"])
        assert NOTHING < row["worst_case"] < row["amount"]
        available, reserved, captured = await callers.funds()
        assert (NOTHING, before[2] + row["captured"]) == (reserved, captured)
        assert available == before[0] - row["captured"]
    assert sorted(took)[2] < CLOSED_WITHIN, took


async def test_a_caller_who_leaves_before_the_first_token_pays_nothing(callers: Callers) -> None:
    stream = callers.call("simulated-stall-first:tokens=9")
    got = await started(stream)

    async def called() -> bool:
        return await callers.seen(got.call_id) is not None

    await eventually(called)
    left = time.time()
    stream.cancel()
    assert await closed_after(callers, got.call_id, left) < 5 * CLOSED_WITHIN
    row = await callers.settled(got.call_id)
    assert ("CANCELLED", NOTHING, "UNKNOWN") == (row["outcome"], row["captured"], row["cost_basis"])
    assert (FUNDS, NOTHING, NOTHING) == await callers.funds()


async def test_a_caller_who_reads_all_and_leaves_before_the_end_has_bought_it(callers: Callers) -> None:
    model = "simulated-stall-mid:tokens=6,tps=0"
    stream = callers.call(model)
    got = await first(stream, tokens=5)
    stream.cancel()
    row = await callers.settled(got.call_id)
    assert await callers.charge_of(model, 5) == row["captured"] > NOTHING


async def test_a_budget_that_ends_in_mid_stream_is_told_and_settled(callers: Callers) -> None:
    model = "simulated-drip:tps=50"
    began = time.monotonic()
    got = await callers.generate(model, timeout=1.0)
    took = time.monotonic() - began
    assert (StatusCode.DEADLINE_EXCEEDED, "BUDGET_EXHAUSTED") == got.kind
    assert took < 1.0
    assert got.tokens > 5
    row = await callers.settled(got.call_id)
    assert ("UNKNOWN", "BUDGET_EXHAUSTED", "UNKNOWN") == (row["outcome"], row["cause"], row["cost_basis"])
    assert await callers.charge_of(model, got.tokens) == row["captured"]
    assert (FUNDS - row["captured"], NOTHING, row["captured"]) == await callers.funds()
    seen = await callers.seen(got.call_id)
    assert seen is not None
    assert "closed_by_client" == seen["state"]


async def test_a_deadline_below_any_use_sends_nothing(callers: Callers) -> None:
    got = await callers.generate("simulated-fast:tokens=22", timeout=0.03)
    assert got.failure is not None
    assert StatusCode.DEADLINE_EXCEEDED == got.failure.code
    assert [] == await callers.all_seen("simulated-fast:tokens=22")
    assert (FUNDS, NOTHING, NOTHING) == await callers.funds()


FAILURES = {
    # model: status and reason for the caller; outcome, cause and basis of cost; whether tokens came first
    "simulated-400": ("FAILED_PRECONDITION", "PROVIDER_REFUSED", "FAILED", "INVALID_REQUEST", None, 0),
    "simulated-401": ("UNAVAILABLE", "PROVIDER_UNAVAILABLE", "FAILED", "CREDENTIALS_REFUSED", None, 0),
    "simulated-429": ("UNAVAILABLE", "PROVIDER_UNAVAILABLE", "FAILED", "RATE_LIMITED", None, 0),
    "simulated-reset-before": (
        "UNAVAILABLE", "PROVIDER_UNAVAILABLE", "UNKNOWN", "CONNECTION_LOST", "UNKNOWN", 0,
    ),
    "simulated-reset-mid:tps=0": (
        "UNAVAILABLE", "PROVIDER_UNAVAILABLE", "UNKNOWN", "CONNECTION_LOST", "UNKNOWN", 5,
    ),
    "simulated-error-mid:tps=0": (
        "UNAVAILABLE", "PROVIDER_UNAVAILABLE", "UNKNOWN", "ERROR_IN_STREAM", "UNKNOWN", 5,
    ),
    "simulated-cut-mid:tps=0": (
        "UNAVAILABLE", "PROVIDER_UNAVAILABLE", "UNKNOWN", "STREAM_ENDED_EARLY", "UNKNOWN", 5,
    ),
    "simulated-fast:tokens=4,finish=content_filter": (
        "FAILED_PRECONDITION", "PROVIDER_REFUSED", "FAILED", "CONTENT_FILTERED", "REPORTED", 4,
    ),
}  # fmt: skip


@pytest.mark.parametrize("model", FAILURES)
async def test_a_provider_that_fails_is_named_and_only_what_came_is_charged(
    callers: Callers, model: str
) -> None:
    code, reason, outcome, cause, basis, tokens = FAILURES[model]
    got = await callers.generate(model)
    assert (StatusCode[code], reason) == got.kind
    assert got.failure is not None
    assert ("simulated", cause, "true") == tuple(
        got.failure.metadata[name] for name in ("provider", "cause", "sent")
    )
    row = await callers.settled(got.call_id)
    assert (outcome, cause, basis) == (row["outcome"], row["cause"], row["cost_basis"])
    assert await callers.charge_of(model, tokens) == row["captured"]
    assert (FUNDS - row["captured"], NOTHING, row["captured"]) == await callers.funds()


async def test_a_provider_that_is_silent_is_told_from_a_budget_that_ran_out(
    database: TestDatabase, simulated: str
) -> None:
    async with open_callers(database, simulated, worker={"route": {"first_token": 0.3}}) as callers:
        got = await callers.generate("simulated-stall-first")
        assert (StatusCode.UNAVAILABLE, "PROVIDER_UNAVAILABLE") == got.kind
        row = await callers.settled(got.call_id)
        assert ("UNKNOWN", "FIRST_TOKEN_TIMEOUT") == (row["outcome"], row["cause"])


async def test_a_provider_that_cannot_be_reached_costs_nobody_anything(
    database: TestDatabase, simulated: str
) -> None:
    route = {"base_url": "http://127.0.0.1:1/v1"}
    async with open_callers(database, simulated, worker={"route": route}) as callers:
        got = await callers.generate("simulated-fast")
        assert (StatusCode.UNAVAILABLE, "PROVIDER_UNAVAILABLE") == got.kind
        assert got.failure is not None
        assert ("CONNECT_FAILED", "false") == (got.failure.metadata["cause"], got.failure.metadata["sent"])
        row = await callers.settled(got.call_id)
        assert ("FAILED", None, NOTHING, NOTHING) == (
            row["outcome"], row["cost_basis"], row["worst_case"], row["captured"],
        )  # fmt: skip


async def test_a_worker_that_is_gone_in_mid_stream_is_unknown_and_only_what_came_is_charged(
    database: TestDatabase, simulated: str
) -> None:
    model = "simulated-drip:tps=51"
    async with open_callers(database, simulated, proxied=True) as callers:
        assert callers.proxy is not None
        stream = callers.call(model)
        got = await first(stream, tokens=5)
        callers.proxy.sever()
        rest = await heard(stream)
        assert (StatusCode.UNAVAILABLE, "WORKER_UNAVAILABLE") == rest.kind
        assert rest.failure is not None
        assert "unknown" == rest.failure.metadata["sent"]
        row = await callers.settled(got.call_id)
        assert ("UNKNOWN", "WORKER_GONE", "UNKNOWN") == (row["outcome"], row["cause"], row["cost_basis"])
        assert await callers.charge_of(model, got.tokens + rest.tokens) == row["captured"]
        assert 0 < row["worst_case"]
        assert [got.call_id] == [seen["key"] for seen in await callers.all_seen(model)]


async def test_a_frozen_worker_costs_the_caller_its_budget_and_nothing_more(
    database: TestDatabase, simulated: str
) -> None:
    async with open_callers(database, simulated, proxied=True) as callers:
        assert callers.proxy is not None
        assert (await callers.generate("simulated-fast")).failure is None
        before = await callers.funds()
        callers.proxy.freeze()
        got = await callers.generate("simulated-fast", timeout=0.8)
        assert (StatusCode.DEADLINE_EXCEEDED, "BUDGET_EXHAUSTED") == got.kind
        row = await callers.settled(got.call_id)
        assert ("UNKNOWN", "BUDGET_EXHAUSTED", NOTHING) == (row["outcome"], row["cause"], row["captured"])
        assert before == await callers.funds()
        callers.proxy.flow()


@pytest.mark.scenario("M11")
async def test_a_server_that_shuts_down_settles_its_calls(database: TestDatabase, simulated: str) -> None:
    async with open_callers(database, simulated, drain_grace=0.5) as callers:
        stream = callers.call("simulated-drip:tps=50")
        got = await first(stream, tokens=3)
        reading = asyncio.ensure_future(heard(stream))
        await callers.jobs.app.server.drain()
        rest = await reading
        assert (StatusCode.UNAVAILABLE, "DRAINING") == rest.kind
        row = await callers.row(got.call_id)
        assert ("UNKNOWN", "DRAINING") == (row["outcome"], row["cause"])
        assert 0 < row["captured"] < row["amount"]
        assert (FUNDS - row["captured"], NOTHING, row["captured"]) == await callers.funds()


MANY = 50


@pytest.mark.scenario("M11")
async def test_many_callers_who_leave_at_any_moment_lose_no_cent(callers: Callers) -> None:
    """Every look sees funds that add up; at the end nothing is reserved, and captured is what calls say."""
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    model = "simulated-fast:tps=200,tokens=40"
    over = asyncio.Event()

    async def one(patience: float | None) -> None:
        stream = callers.call(model)
        reading = asyncio.ensure_future(heard(stream))
        if patience is not None:
            await asyncio.wait({reading}, timeout=patience)
            stream.cancel()
        await asyncio.gather(reading, return_exceptions=True)

    async def look() -> int:
        looks = 0
        while not over.is_set():
            available, reserved, captured = await callers.funds()
            assert min(available, reserved, captured) >= 0
            looks += 1
        return looks

    looking = asyncio.ensure_future(look())
    patience = [None if chance.random() < 0.3 else chance.uniform(0.0, 0.6) for _ in range(MANY)]
    await asyncio.gather(*map(one, patience))

    async def all_settled() -> bool:
        (row,) = await callers.jobs.sql("SELECT count(*) AS n FROM hourglass.calls WHERE settle_time IS NULL")
        return bool(row["n"] == 0)

    await eventually(all_settled, within=15)
    over.set()
    assert await looking > 3
    _, reserved, captured = await callers.funds()
    (row,) = await callers.jobs.sql("SELECT coalesce(sum(captured), 0) AS n FROM hourglass.calls")
    assert (NOTHING, row["n"]) == (reserved, captured), seed
    (row,) = await callers.jobs.sql("SELECT count(*) AS n FROM hourglass.calls WHERE outcome = 'CANCELLED'")
    assert row["n"] > 0, seed

    async def nothing_is_open() -> bool:
        return all(seen["state"] != "open" for seen in await callers.all_seen(model))

    await eventually(nothing_is_open)


async def test_what_was_reserved_is_what_the_caller_was_told(callers: Callers) -> None:
    stream = callers.call("simulated-drip:tokens=50")
    got = await first(stream, tokens=1)
    told = amount_of(got.messages[0].started.reserved_amount)
    assert (FUNDS - told, told, Decimal(0)) == await callers.funds(TENANT)
    stream.cancel()
    await callers.settled(got.call_id)
