"""Reads the chunks of a streamed chat completion into events. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobs_store.rate_card import MAX_TOKENS, Usage
from worker.providers.errors import Cause, ProviderError
from worker.providers.protocol import Delta, Finished, UsageReport
from worker.providers.storable_text import StorableStream, storable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openai.types import CompletionUsage
    from openai.types.chat import ChatCompletionChunk

    from worker.providers.protocol import GenerationEvent

_FILTERED = "content_filter"


class Answer:
    """One answer as it arrives."""

    def __init__(self, *, provider: str, keep_text: bool = False) -> None:
        self.provider_request_id = ""
        self.model = ""
        """The one that answers, as the provider says."""
        self.began: float | None = None
        """When its first text was there, on the monotonic clock: told by who reads it."""
        self.kept: list[str] | None = [] if keep_text else None
        """Its text so far, where somebody wants it."""
        self.usage: Usage | None = None
        self.finish_reason = ""
        self.provider = provider
        self.text_seen = False
        self._text = StorableStream()

    @property
    def whole(self) -> bool:
        """The provider has said why it stopped: nothing but a usage report can still come."""
        return bool(self.finish_reason)

    def read(self, chunk: ChatCompletionChunk) -> Iterator[Delta]:
        """Takes in a chunk; its text comes out. Providers leave out fields that the protocol requires."""
        self.provider_request_id = self.provider_request_id or storable(chunk.id or "")
        self.model = self.model or storable(getattr(chunk, "model", None) or "")
        self.usage = usage_of(chunk.usage) or self.usage
        for choice in (chunk.choices or ())[:1]:
            self.finish_reason = storable(choice.finish_reason or "") or self.finish_reason
            piece = getattr(choice.delta, "content", None)
            if text := self._text.feed(piece or ""):
                self.text_seen = True
                yield self._delta(text)

    def end(self) -> Iterator[GenerationEvent]:
        """The last events of a stream that has ended; `fault` says whether it ended well."""
        if rest := self._text.finish():
            yield self._delta(rest)
        if self.usage is not None:
            yield UsageReport(usage=self.usage)
        if self.fault() is None:
            yield Finished(finish_reason=self.finish_reason, provider_request_id=self.provider_request_id)

    def _delta(self, text: str) -> Delta:
        if self.kept is not None:
            self.kept.append(text)
        return Delta(text=text)

    def fault(self) -> ProviderError | None:
        """What is wrong with an answer that has ended; None if nothing is."""
        if self.whole and self.finish_reason != _FILTERED:
            return None
        return ProviderError(
            Cause.CONTENT_FILTERED if self.whole else Cause.STREAM_ENDED_EARLY,
            provider=self.provider,
            provider_request_id=self.provider_request_id,
            usage=self.usage,
        )


def usage_of(reported: CompletionUsage | None) -> Usage | None:
    """The provider's count, or None if there is none or it makes no sense."""
    if reported is None:
        return None
    details = reported.prompt_tokens_details
    cached = (details.cached_tokens or 0) if details else 0
    counts: tuple[object, ...] = (reported.prompt_tokens, reported.completion_tokens, cached)
    if not all(isinstance(count, int) and 0 <= count <= MAX_TOKENS for count in counts):
        return None
    return Usage(
        input_tokens=reported.prompt_tokens,
        output_tokens=reported.completion_tokens,
        cached_input_tokens=min(cached, reported.prompt_tokens),
    )
