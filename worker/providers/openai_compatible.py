"""The adapter for every provider that speaks the OpenAI chat-completions protocol, through the official SDK.

The SDK's retries are off, and of its timeouts only the one for connecting is used: `budget.http` bounds all
the rest.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import httpx2
from openai import AsyncOpenAI, AsyncStream, NotFoundError, omit
from openai.types.chat import ChatCompletion

from budget.errors import BudgetError
from budget.http import HttpLimits, http_stream
from budget.policy import Policy
from budget.spend import spend
from worker.providers.answer import Answer, usage_of
from worker.providers.failure import failure_of
from worker.providers.protocol import FoundAnswer, NoAnswer, StillRunning
from worker.providers.reading import AnswerSource, Events
from worker.providers.routes import TokenLimitField
from worker.providers.sending import KEY_HEADER, WatchedTransport
from worker.providers.spans import ProviderSpan
from worker.providers.storable_text import storable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager

    from openai._types import RequestOptions
    from openai.types.chat import ChatCompletionChunk

    from budget.core import Budget
    from budget.http import Chunks
    from worker.providers.protocol import Capabilities, GenerationEvent, GenerationRequest, LookUp
    from worker.providers.reading import Text
    from worker.providers.routes import ProviderRoute
    from worker.providers.sending import Sending

_GENERATE: Final = "chat.completions"
_LOOK_UP: Final = "look_up"


class OpenAICompatible:
    """One provider route. Holds its connections; safe for many calls at once.

    capture_content: write prompts and answers into the spans of its calls.
    """

    def __init__(self, route: ProviderRoute, *, capture_content: bool = False) -> None:
        self._route = route
        self._capture_content = capture_content
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
        span = ProviderSpan(self._route, request, capture_content=self._capture_content)
        answer = Answer(provider=self.name, keep_text=span.captures)
        with self._transport.watch(request.request_key) as sending:
            try:
                async with self._chunks(request, answer, sending, budget) as chunks:
                    yield Events(chunks, answer)
            except BaseException as error:
                ending = self._ending(error, answer, sending)
                span.end(ending, answer)
                if ending is error:
                    raise
                raise ending from error
        span.end(None, answer)

    async def look_up(self, request_key: str, *, budget: Budget) -> LookUp:
        """See `Provider.look_up`."""
        path = self._route.look_up_path.replace("{key}", quote(request_key, safe=""))
        try:
            async with spend(budget, self._policy(_LOOK_UP)) as child:
                options: RequestOptions = {"timeout": self._connecting(child)}
                return _found(await self._client.get(path, cast_to=object, options=options))
        except NotFoundError:
            return NoAnswer()
        except Exception as error:
            raise failure_of(error, Answer(provider=self.name), sent=True) from error

    async def close(self, *, budget: Budget) -> None:
        """Closes all connections; gives up when the budget is over."""
        if budget.remaining() > 0:
            async with asyncio.timeout(budget.remaining()):
                await self._client.close()

    def _policy(self, method: str) -> Policy:
        route = self._route
        limit = route.total if method == _GENERATE else route.first_token
        return Policy(dependency=route.name, method=method, limit=limit, floor=min(route.floor, limit))

    def _chunks(
        self, request: GenerationRequest, answer: Answer, sending: Sending, budget: Budget
    ) -> AbstractAsyncContextManager[Chunks[Text]]:
        async def send(child: Budget) -> AnswerSource:
            try:
                stream = await self._send(request, child)
            except Exception as error:
                raise failure_of(error, answer, sent=sending.begun) from error
            return AnswerSource(stream, answer, sending, child)

        return http_stream(
            send,
            close=AnswerSource.close,
            budget=budget,
            policy=self._policy(_GENERATE),
            limits=HttpLimits(first_byte=self._route.first_token, between=self._route.between_tokens),
        )

    def _ending(self, error: BaseException, answer: Answer, sending: Sending) -> BaseException:
        """The error itself, or what it means if it is this call's budget that speaks."""
        if isinstance(error, BudgetError) and (error.dependency, error.method) == (self.name, _GENERATE):
            return failure_of(error, answer, sent=sending.begun)
        return error

    async def _send(self, request: GenerationRequest, child: Budget) -> AsyncStream[ChatCompletionChunk]:
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
            timeout=self._connecting(child),
        )

    def _connecting(self, child: Budget) -> httpx2.Timeout:
        """DNS and TCP get this once, TLS once more."""
        return httpx2.Timeout(None, connect=max(min(self._route.connect, child.remaining()), 0.001))


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
