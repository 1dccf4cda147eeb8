"""The adapter for every provider that speaks the OpenAI chat-completions protocol, through the official SDK.

The SDK's retries are off and its timeouts are not used but for connecting: `Pace` bounds every wait.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx2
from openai import AsyncOpenAI, AsyncStream, NotFoundError, omit
from openai.types.chat import ChatCompletion

from budget.errors import BudgetTooLow
from budget.policy import Policy
from worker.providers.answer import usage_of
from worker.providers.errors import Cause, ProviderError
from worker.providers.failure import failure_of
from worker.providers.pace import Pace
from worker.providers.protocol import FoundAnswer, NoAnswer, StillRunning
from worker.providers.reading import Reading
from worker.providers.routes import TokenLimitField
from worker.providers.sending import KEY_HEADER, WatchedTransport
from worker.providers.storable_text import storable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from openai.types.chat import ChatCompletionChunk

    from budget.core import Budget
    from worker.providers.protocol import Capabilities, GenerationEvent, GenerationRequest, LookUp
    from worker.providers.routes import ProviderRoute


class OpenAICompatible:
    """One provider route. Holds its connections; safe for many calls at once."""

    def __init__(self, route: ProviderRoute) -> None:
        self._route = route
        self._transport = WatchedTransport(
            proxy=route.proxy, limits=httpx2.Limits(max_connections=None, max_keepalive_connections=64)
        )
        self._client = AsyncOpenAI(
            api_key=route.api_key.get_secret_value(),
            base_url=route.base_url,
            max_retries=0,
            http_client=httpx2.AsyncClient(transport=self._transport, follow_redirects=False, timeout=None),
        )
        self._completions = self._client.chat.completions  # imported by the SDK on first use: not in a call

    @property
    def name(self) -> str:
        """The provider's name."""
        return self._route.name

    @property
    def capabilities(self) -> Capabilities:
        """As configured for the route."""
        return self._route.capabilities

    @asynccontextmanager
    async def stream(
        self, request: GenerationRequest, *, budget: Budget
    ) -> AsyncIterator[AsyncIterator[GenerationEvent]]:
        """See `Provider.stream`."""
        pace = self._start(budget, method="chat.completions")
        with self._transport.watch(request.request_key) as sending:
            reading = Reading(self._route, request, pace, sending)
            try:
                await reading.open(self._send(request, pace))
                yield reading
            except BaseException as error:
                reading.end(error)
                raise
            else:
                reading.end(None)
            finally:
                await reading.close()

    async def look_up(self, request_key: str, *, budget: Budget) -> LookUp:
        """See `Provider.look_up`."""
        pace = self._start(budget, method="look_up")
        path = self._route.look_up_path.replace("{key}", quote(request_key, safe=""))
        try:
            found = await pace.step(
                self._client.get(path, cast_to=object, options={"timeout": self._connecting(pace)}),
                limit=self._route.first_token,
            )
            answer = _found(found)
        except NotFoundError:
            pace.end_with(None)
            return NoAnswer()
        except Exception as error:
            failure = failure_of(
                error, provider=self.name, sent=True, first_token_seen=False, provider_request_id=""
            )
            pace.end_with(failure)
            raise failure from error
        pace.end_with(None)
        return answer

    async def close(self, *, budget: Budget) -> None:
        """Closes all connections; gives up when the budget is over."""
        if budget.remaining() > 0:
            async with asyncio.timeout(budget.remaining()):
                await self._client.close()

    def _start(self, budget: Budget, *, method: str) -> Pace:
        route = self._route
        policy = Policy(dependency=route.name, method=method, limit=route.total, floor=route.floor)
        try:
            return Pace.start(budget, policy)
        except BudgetTooLow as error:
            raise ProviderError(Cause.BUDGET_TOO_LOW, provider=self.name, sent=False) from error

    async def _send(self, request: GenerationRequest, pace: Pace) -> AsyncStream[ChatCompletionChunk]:
        messages: list[Any] = [{"role": m.role, "content": m.content} for m in request.messages]
        completion_tokens = self._route.token_limit_field is TokenLimitField.MAX_COMPLETION_TOKENS
        return await self._completions.create(
            model=self._route.upstream_model(request.model),
            messages=messages,
            max_completion_tokens=request.max_output_tokens if completion_tokens else omit,
            max_tokens=omit if completion_tokens else request.max_output_tokens,
            temperature=omit if request.temperature is None else request.temperature,
            top_p=omit if request.top_p is None else request.top_p,
            stop=list(request.stop) or omit,
            seed=omit if request.seed is None else request.seed,
            stream=True,
            stream_options={"include_usage": True},
            extra_headers={KEY_HEADER: request.request_key},
            timeout=self._connecting(pace),
        )

    def _connecting(self, pace: Pace) -> httpx2.Timeout:
        """Only the connection has a timeout of the library's: DNS and TCP, then TLS, get it once each."""
        return httpx2.Timeout(None, connect=max(min(self._route.connect, pace.remaining), 0.001))


def _found(found: object) -> LookUp:
    """Reads the answer of a look-up. ValueError when it makes no sense."""
    match found:
        case {"status": "in_progress"}:
            return StillRunning()
        case {"status": "completed", "completion": dict(stored)}:
            return _answer_of(ChatCompletion.model_validate(stored))
        case _:
            raise ValueError("the look-up answered something else than an answer")


def _answer_of(completion: ChatCompletion) -> FoundAnswer:
    choice = completion.choices[0]
    return FoundAnswer(
        text=storable(choice.message.content or ""),
        finish_reason=storable(choice.finish_reason),
        provider_request_id=storable(completion.id),
        usage=usage_of(completion.usage),
    )
