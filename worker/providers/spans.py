"""The client span of a provider's call (GenAI semantic conventions). What is said is left out by default.

Conventions: semantic-conventions-genai, span `chat {model}`.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from opentelemetry import trace
from opentelemetry.trace import SpanKind, Status, StatusCode

from worker.providers.errors import ProviderError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from worker.providers.answer import Answer
    from worker.providers.protocol import GenerationRequest
    from worker.providers.routes import ProviderRoute

_OPERATION: Final = "chat"


class ProviderSpan:
    """A span under the current one. It is not made current: nothing below it makes spans.

    capture_content: write prompts and answers into it.
    """

    def __init__(self, route: ProviderRoute, request: GenerationRequest, *, capture_content: bool) -> None:
        self._began = time.monotonic()
        tracer = trace.get_tracer("hourglass.worker.providers")
        self._span = tracer.start_span(
            f"{_OPERATION} {request.model}", kind=SpanKind.CLIENT, attributes=_asked(route, request)
        )
        self.captures = capture_content and self._span.is_recording()
        """Whether the answer's text is wanted at the end."""
        if self._span.is_recording():
            self._span.set_attributes(_options(request))
        if self.captures:
            self._span.set_attribute("gen_ai.input.messages", _input(request))

    def end(self, error: BaseException | None, answer: Answer) -> None:
        """Writes down how the call ended and ends the span. One that we closed is no error of it."""
        span = self._span
        if not span.is_recording():
            return
        span.set_attributes(_answered(answer, self._began))
        if self.captures:
            span.set_attribute("gen_ai.output.messages", _output(answer))
        if isinstance(error, asyncio.CancelledError | GeneratorExit):
            span.set_attribute("hourglass.cancelled", True)  # noqa: FBT003 - OpenTelemetry's own signature
        elif error is not None:
            cause = error.cause.value if isinstance(error, ProviderError) else type(error).__name__
            span.set_attributes({"error.type": cause, **_failed(error)})
            if self.captures and isinstance(error, ProviderError):
                span.set_attribute("hourglass.provider.words", error.words)
            span.set_status(Status(StatusCode.ERROR, cause))
        span.end()


def _asked(route: ProviderRoute, request: GenerationRequest) -> Mapping[str, str | int]:
    """What a sampler may want to know."""
    address = urlsplit(route.base_url)
    return {
        "gen_ai.operation.name": _OPERATION,
        "gen_ai.provider.name": route.name,
        "gen_ai.request.model": request.model,
        "server.address": address.hostname or "",
        "server.port": address.port or (443 if address.scheme == "https" else 80),
    }


def _options(request: GenerationRequest) -> Mapping[str, Any]:
    options = {
        "gen_ai.request.max_tokens": request.max_output_tokens,
        "gen_ai.request.stream": True,
        "gen_ai.request.temperature": request.temperature,
        "gen_ai.request.top_p": request.top_p,
        "gen_ai.request.seed": request.seed,
        "gen_ai.output.type": "text",
        "hourglass.request_key": request.request_key,
    }
    return {name: value for name, value in options.items() if value is not None}


def _answered(answer: Answer, began: float) -> Mapping[str, Any]:
    """What is known of the answer, whole or not."""
    usage = answer.usage
    known = {
        "gen_ai.response.id": answer.provider_request_id or None,
        "gen_ai.response.model": answer.model or None,
        "gen_ai.response.finish_reasons": [answer.finish_reason] if answer.finish_reason else None,
        "gen_ai.response.time_to_first_chunk": None if answer.began is None else answer.began - began,
        "gen_ai.usage.input_tokens": usage and usage.input_tokens,
        "gen_ai.usage.output_tokens": usage and usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage and usage.cached_input_tokens,
    }
    return {name: value for name, value in known.items() if value is not None}


def _failed(error: BaseException) -> Mapping[str, Any]:
    if not isinstance(error, ProviderError):
        return {}
    return {"hourglass.error_class": error.error_class.value, "hourglass.sent": error.sent}


def _input(request: GenerationRequest) -> str:
    return json.dumps([_message(message.role, message.content) for message in request.messages])


def _output(answer: Answer) -> str:
    message = _message("assistant", "".join(answer.kept or ()))
    return json.dumps([{**message, "finish_reason": answer.finish_reason or "error"}])


def _message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}
