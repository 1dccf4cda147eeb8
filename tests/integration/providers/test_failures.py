"""Every way in which a provider fails has its class, its cause, and the proof whether it was sent."""

from __future__ import annotations

import asyncio
import socket
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from budget.core import Budget
from budget.ledger import Outcome
from tests.integration.providers.calls import Heard, read, request
from tests.model_server import request_of
from tests.waiting import eventually
from worker.providers.errors import Cause, ErrorClass, ProviderError
from worker.providers.openai_compatible import OpenAICompatible
from worker.providers.protocol import FoundAnswer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from worker.providers.routes import ProviderRoute

PERMANENT, PLATFORM, TRANSIENT, UNKNOWN = (
    ErrorClass.PERMANENT,
    ErrorClass.PLATFORM,
    ErrorClass.TRANSIENT,
    ErrorClass.UNKNOWN,
)


async def failure(
    provider: OpenAICompatible, model: str, *, budget: Budget | None = None, heard: Heard | None = None
) -> ProviderError:
    """The error that a call ends with."""
    with pytest.raises(ProviderError) as caught:
        await read(provider, request(model), budget=budget, heard=heard)
    return caught.value


@pytest.mark.parametrize(
    ("model", "error_class", "cause"),
    [
        ("simulated-400", PERMANENT, Cause.INVALID_REQUEST),
        ("simulated:status=404", PERMANENT, Cause.MODEL_NOT_FOUND),
        ("simulated-nothing", PERMANENT, Cause.MODEL_NOT_FOUND),
        ("simulated:status=413", PERMANENT, Cause.REQUEST_TOO_LARGE),
        ("simulated:status=422", PERMANENT, Cause.INVALID_REQUEST),
        ("simulated:status=400,code=content_filter", PERMANENT, Cause.CONTENT_FILTERED),
        ("simulated-fast:finish=content_filter", PERMANENT, Cause.CONTENT_FILTERED),
        ("simulated-401", PLATFORM, Cause.CREDENTIALS_REFUSED),
        ("simulated:status=402", PLATFORM, Cause.PAYMENT_REQUIRED),
        ("simulated:status=403", PLATFORM, Cause.ACCESS_DENIED),
        ("simulated:status=429,code=insufficient_quota", PLATFORM, Cause.QUOTA_EXHAUSTED),
        ("simulated:status=307", PLATFORM, Cause.REDIRECTED),
        ("simulated-429", TRANSIENT, Cause.RATE_LIMITED),
        ("simulated:status=408", TRANSIENT, Cause.REQUEST_TIMEOUT),
        ("simulated:status=409", TRANSIENT, Cause.CONFLICT),
        ("simulated:status=425", TRANSIENT, Cause.TOO_EARLY),
        ("simulated-500", TRANSIENT, Cause.SERVER_ERROR),
        ("simulated:status=502", TRANSIENT, Cause.BAD_GATEWAY),
        ("simulated:status=503", TRANSIENT, Cause.OVERLOADED),
        ("simulated:status=504", UNKNOWN, Cause.GATEWAY_TIMEOUT),
        ("simulated:status=520", UNKNOWN, Cause.UNEXPECTED_STATUS),
        ("simulated-reset-before", UNKNOWN, Cause.CONNECTION_LOST),
        ("simulated-reset-mid", UNKNOWN, Cause.CONNECTION_LOST),
        ("simulated-error-mid", UNKNOWN, Cause.ERROR_IN_STREAM),
        ("simulated-cut-mid", UNKNOWN, Cause.STREAM_ENDED_EARLY),
        ("simulated-stall-first", UNKNOWN, Cause.FIRST_TOKEN_TIMEOUT),
        ("simulated-stall-mid", UNKNOWN, Cause.BETWEEN_TOKENS_TIMEOUT),
    ],
)
async def test_a_failure_after_the_send_has_its_class_and_cause(
    provider: OpenAICompatible, model: str, error_class: ErrorClass, cause: Cause
) -> None:
    error = await failure(provider, model)
    assert (error.error_class, error.cause, error.sent) == (error_class, cause, True)


@pytest.mark.parametrize("model", ["simulated-reset-mid", "simulated-error-mid", "simulated-stall-mid"])
async def test_what_came_before_a_failure_in_mid_stream_is_kept(
    provider: OpenAICompatible, model: str
) -> None:
    heard = Heard()
    error = await failure(provider, model, heard=heard)
    assert heard.deltas == 5
    assert error.provider_request_id.startswith("req-")


@pytest.mark.parametrize("model", ["simulated-500:times=2", "simulated-reset-mid:times=2"])
async def test_a_model_that_fails_so_many_times_answers_the_prompt_after_that(
    provider: OpenAICompatible, model: str
) -> None:
    for _ in range(2):
        await failure(provider, model)
    heard = await read(provider, request(model))
    assert heard.finished is not None
    assert "stop" == heard.finished.finish_reason
    await failure(provider, f"{model},tokens=7")


async def test_a_refusal_tells_how_long_to_wait(provider: OpenAICompatible) -> None:
    assert (await failure(provider, "simulated-429")).retry_after == 2.0
    assert (await failure(provider, "simulated:status=503")).retry_after is None


async def test_a_filtered_answer_still_tells_what_it_used(provider: OpenAICompatible) -> None:
    error = await failure(provider, "simulated-fast:tokens=3,finish=content_filter")
    assert error.usage is not None
    assert error.usage.output_tokens == 3


async def test_the_words_of_a_provider_stay_out_of_the_message(provider: OpenAICompatible) -> None:
    error = await failure(provider, "simulated-401")
    assert str(error) == "simulated: CREDENTIALS_REFUSED (HTTP 401)"
    assert "asked for by the model's name: Tell me of sand." in error.words
    assert error.kind == "invalid_api_key,unauthorized"


async def test_a_drip_is_cut_at_the_total(provider: OpenAICompatible) -> None:
    budget, heard = Budget.for_work(0.8), Heard()
    started = time.monotonic()
    error = await failure(provider, "simulated-drip", budget=budget, heard=heard)
    took = time.monotonic() - started
    assert (error.error_class, error.cause, error.sent) == (UNKNOWN, Cause.BUDGET_EXHAUSTED, True)
    assert heard.deltas >= 2
    assert 0.75 <= took < 1.3
    assert [spend.outcome for spend in budget.ledger.spends] == [Outcome.EXHAUSTED]


async def test_a_drip_is_cut_at_the_routes_own_total(route: ProviderRoute) -> None:
    provider = OpenAICompatible(route.model_copy(update={"total": 0.5}))
    budget = Budget.for_work(10.0)
    error = await failure(provider, "simulated-drip", budget=budget)
    await provider.close(budget=Budget.for_work(5.0))
    assert (error.error_class, error.cause) == (UNKNOWN, Cause.TOTAL_TIMEOUT)
    assert [spend.outcome for spend in budget.ledger.spends] == [Outcome.TIMEOUT]


async def test_a_call_that_cannot_be_useful_is_not_sent(provider: OpenAICompatible, simulated: str) -> None:
    asked = request("simulated-fast")
    with pytest.raises(ProviderError) as caught:
        await read(provider, asked, budget=Budget.for_work(0.02))
    error = caught.value
    assert (error.error_class, error.cause, error.sent) == (TRANSIENT, Cause.BUDGET_TOO_LOW, False)
    assert await request_of(simulated, asked.request_key) is None


@pytest.mark.scenario("U1")
async def test_a_refused_connection_proves_that_nothing_was_sent(route: ProviderRoute) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    error = await _failure_at(route, f"http://127.0.0.1:{port}/v1")
    assert (error.error_class, error.cause, error.sent) == (TRANSIENT, Cause.CONNECT_FAILED, False)


async def test_an_unknown_host_proves_that_nothing_was_sent(route: ProviderRoute) -> None:
    error = await _failure_at(route, "http://no-such-host.invalid/v1")
    assert (error.error_class, error.sent) == (TRANSIENT, False)
    assert error.cause in {Cause.CONNECT_FAILED, Cause.CONNECT_TIMEOUT}


async def test_a_failed_tls_handshake_proves_that_nothing_was_sent(
    route: ProviderRoute, simulated: str
) -> None:
    error = await _failure_at(route, f"{simulated.replace('http:', 'https:')}/v1")
    assert (error.error_class, error.cause, error.sent) == (TRANSIENT, Cause.CONNECT_FAILED, False)


async def test_a_silent_tls_handshake_ends_at_the_connect_limit(route: ProviderRoute) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(1)
        started = time.monotonic()
        short = route.model_copy(update={"connect": 0.2})
        error = await _failure_at(short, f"https://127.0.0.1:{silent.getsockname()[1]}/v1")
    assert (error.error_class, error.cause, error.sent) == (TRANSIENT, Cause.CONNECT_TIMEOUT, False)
    assert time.monotonic() - started < 1.0


async def test_a_stream_that_makes_no_sense_is_unknown(route: ProviderRoute) -> None:
    async with _speaking(b"data: {not json\n\n") as url:
        error = await _failure_at(route, url)
    assert (error.error_class, error.cause, error.sent) == (UNKNOWN, Cause.MALFORMED_STREAM, True)


async def test_a_page_instead_of_a_stream_is_no_answer(route: ProviderRoute) -> None:
    async with _speaking(b"<html>welcome</html>") as url:
        error = await _failure_at(route, url)
    assert (error.error_class, error.cause, error.sent) == (UNKNOWN, Cause.STREAM_ENDED_EARLY, True)


async def test_an_answer_that_the_connection_outlived_is_whole(route: ProviderRoute) -> None:
    chunk = b'data: {"id":"1","choices":[{"index":0,"delta":{"content":"a\\u0000\\ud83d"}}]}\n\n'
    rest = (
        b'data: {"id":"1","choices":[{"index":0,"delta":{"content":"\\ude00"},"finish_reason":"stop"}]}\n\n'
    )
    async with _speaking(chunk + rest, more_promised=True) as url:
        provider = OpenAICompatible(route.model_copy(update={"base_url": url}))
        heard = await read(provider, request("simulated"))
        await provider.close(budget=Budget.for_work(5.0))
    assert heard.text == "a\ufffd\U0001f600"
    assert heard.finished is not None


async def test_a_whole_answer_does_not_wait_long_for_its_usage(route: ProviderRoute) -> None:
    body = b'data: {"id":"1","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}\n\n'
    async with _speaking(body, more_promised=True, then_silent=True) as url:
        provider = OpenAICompatible(route.model_copy(update={"base_url": url, "between_tokens": 30.0}))
        heard = await read(provider, request("simulated"), budget=Budget.for_work(0.6))
        await provider.close(budget=Budget.for_work(5.0))
    assert (heard.text, heard.usage) == ("a", None)
    assert heard.finished is not None


async def test_a_request_that_cannot_be_written_is_never_sent(provider: OpenAICompatible) -> None:
    with pytest.raises(ProviderError) as caught:
        await read(provider, request("simulated", prompt="\ud800"))
    error = caught.value
    assert (error.error_class, error.cause, error.sent) == (PERMANENT, Cause.REQUEST_UNSENDABLE, False)


async def test_an_answer_that_was_kept_can_be_looked_up_after_a_reset(provider: OpenAICompatible) -> None:
    asked = request("simulated-reset-mid:kept=1,tokens=12,tps=0")
    with pytest.raises(ProviderError):
        await read(provider, asked)

    async def found() -> bool:
        answer = await provider.look_up(asked.request_key, budget=Budget.for_work(5.0))
        return isinstance(answer, FoundAnswer) and len(answer.text.split()) == 12

    await eventually(found)


async def _failure_at(route: ProviderRoute, base_url: str) -> ProviderError:
    provider = OpenAICompatible(route.model_copy(update={"base_url": base_url}))
    try:
        return await failure(provider, "simulated")
    finally:
        await provider.close(budget=Budget.for_work(5.0))


@asynccontextmanager
async def _speaking(
    body: bytes, *, more_promised: bool = False, then_silent: bool = False
) -> AsyncIterator[str]:
    """A server that answers every request with this event stream, and then closes the connection or waits."""
    length = len(body) + (100 if more_promised else 0)
    head = f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {length}\r\n\r\n"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head.encode() + body)
        await writer.drain()
        if then_silent:
            await reader.read()  # until the client leaves: its body and then the end
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        yield f"http://{host}:{port}/v1"
