"""A good answer arrives whole, in order, counted, and the same for the same request."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from budget.core import Budget
from budget.ledger import Outcome
from jobs_store.token_bound import input_token_bound
from tests.integration.providers.calls import read, request
from tests.model_server import model_server
from worker.providers.openai_compatible import OpenAICompatible
from worker.providers.protocol import FoundAnswer, NoAnswer
from worker.providers.routes import ProviderRoute

if TYPE_CHECKING:
    from collections.abc import Iterator


async def test_an_answer_ends_with_its_usage_and_its_reason(provider: OpenAICompatible) -> None:
    heard = await read(provider, request("simulated-fast:tokens=20"))
    assert heard.order == ["Delta"] * 20 + ["UsageReport", "Finished"]
    assert heard.usage is not None
    assert heard.usage.usage.output_tokens == 20
    assert heard.finished is not None
    assert heard.finished.finish_reason == "stop"
    assert heard.finished.provider_request_id.startswith("req-")


async def test_the_same_request_gets_the_same_text(provider: OpenAICompatible) -> None:
    first = await read(provider, request("simulated-fast:tokens=30"))
    second = await read(provider, request("simulated-fast:tokens=30"))
    other = await read(provider, request("simulated-fast:tokens=30", prompt="Tell me of glass."))
    assert first.text == second.text
    assert first.text != other.text


async def test_the_token_limit_cuts_the_answer(provider: OpenAICompatible) -> None:
    heard = await read(provider, request("simulated-fast:tokens=50", limit=7))
    assert heard.deltas == 7
    assert heard.finished is not None
    assert heard.finished.finish_reason == "length"


async def test_a_provider_that_counts_nothing_still_finishes(provider: OpenAICompatible) -> None:
    heard = await read(provider, request("simulated-no-usage:tps=0"))
    assert heard.usage is None
    assert heard.finished is not None


@pytest.mark.faults
async def test_a_blocked_loop_makes_no_silence_of_an_answer_that_has_come(
    provider: OpenAICompatible, route: ProviderRoute
) -> None:
    """Blocked for longer than the silence that is allowed, again and again: the answer is whole."""
    blocked = 0

    def block() -> None:
        nonlocal blocked
        blocked += 1
        time.sleep(1.4 * route.between_tokens)

    answer = asyncio.create_task(read(provider, request("simulated:tokens=80,tps=20")))
    while not answer.done():
        await asyncio.wait({answer}, timeout=0.1)
        block()
    heard = await answer
    assert blocked >= 3
    assert heard.finished is not None
    assert 80 == heard.deltas


async def test_a_call_is_one_line_of_the_ledger(provider: OpenAICompatible) -> None:
    budget = Budget.for_work(10.0)
    await read(provider, request("simulated-fast"), budget=budget)
    (spend,) = budget.ledger.spends
    assert (spend.dependency, spend.method, spend.outcome) == ("simulated", "chat.completions", Outcome.OK)


async def test_a_finished_answer_can_be_looked_up_by_its_key(provider: OpenAICompatible) -> None:
    asked = request("simulated-fast:tokens=9")
    heard = await read(provider, asked)
    found = await provider.look_up(asked.request_key, budget=Budget.for_work(5.0))
    assert isinstance(found, FoundAnswer)
    assert heard.usage is not None
    assert heard.finished is not None
    assert found == FoundAnswer(
        text=heard.text,
        finish_reason="stop",
        provider_request_id=heard.finished.provider_request_id,
        usage=heard.usage.usage,
    )


async def test_a_key_that_was_never_used_has_no_answer(provider: OpenAICompatible) -> None:
    found = await provider.look_up("never/used?", budget=Budget.for_work(5.0))
    assert isinstance(found, NoAnswer)


async def test_a_repeated_key_gets_the_first_answer(provider: OpenAICompatible) -> None:
    asked = request("simulated-fast:tokens=9")
    first, second = await read(provider, asked), await read(provider, asked)
    assert (first.text, first.finished) == (second.text, second.finished)


@pytest.fixture(scope="module")
def local() -> Iterator[str]:
    """Base URL of the real local model."""
    with model_server("model_servers.local") as url:
        yield url


async def test_the_real_local_model_answers_within_its_bounds(local: str) -> None:
    provider = OpenAICompatible(ProviderRoute(name="local", models=("smollm2-*",), base_url=f"{local}/v1"))
    asked = request("smollm2-135m", prompt="Say hello.", limit=8)
    heard = await read(provider, asked, budget=Budget.for_work(30.0))
    await provider.close(budget=Budget.for_work(5.0))
    assert heard.text.strip()
    assert heard.usage is not None
    assert 1 <= heard.usage.usage.output_tokens <= 8
    assert heard.usage.usage.input_tokens <= input_token_bound(m.content for m in asked.messages)
    assert heard.finished is not None
