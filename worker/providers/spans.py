"""The client span of a provider's call (GenAI semantic conventions). Texts are never recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from worker.providers.errors import ProviderError

if TYPE_CHECKING:
    from worker.providers.answer import Answer
    from worker.providers.protocol import GenerationRequest
    from worker.providers.routes import ProviderRoute

_OPERATION: Final = "chat"


def start_span(route: ProviderRoute, request: GenerationRequest) -> Span:
    """A span under the current one. It is not made current: nothing below it makes spans."""
    address = urlsplit(route.base_url)
    attributes: dict[str, str | int] = {
        "gen_ai.operation.name": _OPERATION,
        "gen_ai.provider.name": route.name,
        "gen_ai.request.model": request.model,
        "gen_ai.request.max_tokens": request.max_output_tokens,
        "server.address": address.hostname or "",
        "server.port": address.port or (443 if address.scheme == "https" else 80),
        "hourglass.request_key": request.request_key,
    }
    tracer = trace.get_tracer("hourglass.worker.providers")
    return tracer.start_span(f"{_OPERATION} {request.model}", kind=SpanKind.CLIENT, attributes=attributes)


def end_span(span: Span, error: BaseException | None, answer: Answer) -> None:
    """Writes down how the call ended and ends the span."""
    if answer.usage is not None:
        span.set_attribute("gen_ai.usage.input_tokens", answer.usage.input_tokens)
        span.set_attribute("gen_ai.usage.output_tokens", answer.usage.output_tokens)
    if answer.finish_reason:
        span.set_attribute("gen_ai.response.finish_reasons", [answer.finish_reason])
    if answer.provider_request_id:
        span.set_attribute("gen_ai.response.id", answer.provider_request_id)
    if error is not None:
        cause = error.cause.value if isinstance(error, ProviderError) else type(error).__name__
        span.set_attribute("error.type", cause)
        span.set_status(Status(StatusCode.ERROR, cause))
    if isinstance(error, ProviderError):
        span.set_attribute("hourglass.error_class", error.error_class.value)
        span.set_attribute("hourglass.sent", error.sent)
    span.end()
