"""The classic split of 2 s over HTTP, gRPC and PostgreSQL, each hung in turn: who is told what, and when."""

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import asyncpg
import pytest

from hourglass.budget.v1.ledger_pb2 import SpendOutcome
from servicekit.methods import MethodPolicy
from tests.integration.budget.reference_handler import APPLICATION, Reference, reference
from tests.integration.servicekit.service import Answer, Harness, method, serving
from tests.postgres import TestDatabase
from tests.waiting import eventually

SHAPE = "unary_unary"
TOTAL = 2.0
ON_TIME = 0.25
"""Seconds by which an answer may come late on a busy machine; the benchmark measures the real figure."""


@pytest.fixture
async def handler(empty_database: TestDatabase) -> AsyncIterator[Reference]:
    async with reference(empty_database.owner) as running:
        yield running


@pytest.fixture
async def observer(empty_database: TestDatabase) -> AsyncIterator["asyncpg.Connection[Any]"]:
    connection = await asyncpg.connect(empty_database.owner)
    yield connection
    await connection.close()


async def sessions(observer: "asyncpg.Connection[Any]") -> list[tuple[object, ...]]:
    """The handler's sessions as the server sees them: which statement each began last, and when."""
    rows = await observer.fetch(
        "SELECT pid, state, query_start, query FROM pg_stat_activity"
        " WHERE application_name = $1 ORDER BY pid",
        APPLICATION,
    )
    return [tuple(row) for row in rows]


async def ask(harness: Harness, *, seconds: float = TOTAL) -> tuple[Answer, float]:
    started = time.monotonic()
    answer = await harness.ask(SHAPE, b"walk", timeout=seconds)
    return answer, time.monotonic() - started


def spends(answer: Answer) -> list[tuple[str, str]]:
    """The ledger as the caller got it."""
    return [
        (one.dependency, SpendOutcome.Name(one.outcome).removeprefix("SPEND_OUTCOME_").lower())
        for one in answer.ledger.spends
    ]


@dataclass(frozen=True, kw_only=True)
class Hung:
    """One dependency that hangs, and what the caller is told."""

    limit: float
    code: str
    reason: str
    spends: list[tuple[str, str]]


LOADED = [("worker", "ok")]
HUNG = {
    "http": Hung(
        limit=0.7, code="DEADLINE_EXCEEDED", reason="UPSTREAM_TIMEOUT", spends=[*LOADED, ("http", "timeout")]
    ),
    "pricing": Hung(
        limit=0.5,
        code="DEADLINE_EXCEEDED",
        reason="UPSTREAM_TIMEOUT",
        spends=[*LOADED, ("http", "ok"), ("pricing", "timeout")],
    ),
    "postgres": Hung(
        limit=0.4,
        code="UNAVAILABLE",
        reason="DATABASE_TIMEOUT",
        spends=[*LOADED, ("http", "ok"), ("pricing", "ok"), ("postgres", "timeout")],
    ),
}


def hang(handler: Reference, dependency: str) -> None:
    handler.http.hung = dependency == "http"
    handler.pricing.hung = dependency == "pricing"
    handler.statement_takes = 10.0 if dependency == "postgres" else 0.0


async def test_with_time_for_all_every_dependency_answers_and_stands_in_the_ledger(
    handler: Reference,
) -> None:
    async with serving({b"walk": handler.walk}) as harness:
        answer, _ = await ask(harness)

    assert [b"read priced stored idle"] == answer.messages
    assert [("worker", "ok"), ("http", "ok"), ("pricing", "ok"), ("postgres", "ok")] == spends(answer)


@pytest.mark.parametrize("dependency", HUNG)
async def test_a_hung_dependency_costs_its_own_share_and_the_caller_is_told_which_one_it_was(
    handler: Reference, dependency: str
) -> None:
    hung = HUNG[dependency]
    async with serving({b"walk": handler.walk}) as harness:
        hang(handler, dependency)
        answer, took = await ask(harness)

    assert (hung.code, hung.reason) == (answer.code.name, answer.reason)
    assert hung.spends == spends(answer)
    assert hung.limit <= took < hung.limit + ON_TIME
    assert took < TOTAL


@pytest.mark.parametrize("dependency", HUNG)
async def test_after_a_hung_dependency_nothing_further_is_touched(
    handler: Reference, observer: "asyncpg.Connection[Any]", dependency: str
) -> None:
    before = await sessions(observer)
    async with serving({b"walk": handler.walk}) as harness:
        hang(handler, dependency)
        await ask(harness)

    assert 1 == handler.http.requests
    called = [] if dependency == "http" else ["GetPrice"]
    assert ["GetLoad", *called] == handler.pricing.calls
    if dependency != "postgres":
        assert before == await sessions(observer)


@pytest.mark.parametrize("dependency", HUNG)
async def test_a_hung_dependency_is_let_go(
    handler: Reference, observer: "asyncpg.Connection[Any]", dependency: str
) -> None:
    async def idle() -> bool:
        return {"idle"} == {state for _, state, *_ in await sessions(observer)}

    async with serving({b"walk": handler.walk}) as harness:
        hang(handler, dependency)
        await ask(harness)

        await eventually(lambda: handler.http.open == 0, within=1.0)
        await eventually(idle, within=1.0)
        await eventually(lambda: handler.database.in_use == 0, within=1.0)
        if dependency == "pricing":
            await eventually(handler.pricing.cancelled.is_set, within=1.0)


async def test_a_budget_that_ends_inside_a_hung_dependency_is_the_budgets_end(handler: Reference) -> None:
    async with serving({b"walk": handler.walk}) as harness:
        hang(handler, "http")
        answer, took = await ask(harness, seconds=0.5)

    assert ("DEADLINE_EXCEEDED", "BUDGET_EXHAUSTED") == (answer.code.name, answer.reason)
    assert [*LOADED, ("http", "exhausted")] == spends(answer)
    assert took < 0.5


async def test_what_earlier_calls_took_is_missing_from_the_last_ones_time(handler: Reference) -> None:
    async with serving({b"walk": handler.walk}) as harness:
        handler.pricing.takes = 0.3
        hang(handler, "postgres")
        answer, took = await ask(harness, seconds=0.7)

    # 330 of its 400 ms were left.
    assert [*LOADED, ("http", "ok"), ("pricing", "ok"), ("postgres", "exhausted")] == spends(answer)
    assert ("DEADLINE_EXCEEDED", "BUDGET_EXHAUSTED") == (answer.code.name, answer.reason)
    assert took < 0.7


async def test_with_80_ms_left_the_optional_call_is_left_out_and_the_rest_is_answered(
    handler: Reference,
) -> None:
    async with serving({b"walk": handler.walk}) as harness:
        await ask(harness)  # everything is connected
    handler.pricing.calls.clear()

    short = {method(SHAPE): MethodPolicy(default=None, cap=0.08)}
    answers = []
    async with serving({b"walk": handler.walk}, policies=short) as harness:
        for _ in range(10):  # a busy machine may take 80 ms for what is done in 5
            answers.append((await ask(harness))[0])
            if answers[-1].messages:
                break

    assert {("worker", "skipped_low")} == {spends(answer)[0] for answer in answers}
    assert [b"read priced stored unknown"] == answers[-1].messages
    assert "GetLoad" not in handler.pricing.calls


async def test_with_20_ms_left_nothing_is_touched_at_all(
    handler: Reference, observer: "asyncpg.Connection[Any]"
) -> None:
    before = await sessions(observer)
    short = {method(SHAPE): MethodPolicy(default=None, cap=0.02)}
    async with serving({b"walk": handler.walk}, policies=short) as harness:
        answer, _ = await ask(harness)

    assert ("DEADLINE_EXCEEDED", "BUDGET_TOO_LOW") == (answer.code.name, answer.reason)
    assert [("worker", "skipped_low"), ("http", "refused_low")] == spends(answer)
    assert (0, []) == (handler.http.requests, handler.pricing.calls)
    assert before == await sessions(observer)
