"""The OpenAI chat-completions protocol: requests read, answers and errors written. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http.client import responses
from typing import TYPE_CHECKING, Final

from model_servers.simulated.text import Prompt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CREATED: Final = 1_700_000_000
"""``created`` of every answer: the same request has the same answer."""


class BadRequest(Exception):
    """The request is not one of this protocol; the message names the field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """The parts of a request that matter here."""

    model: str
    prompt: Prompt
    stream: bool
    include_usage: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A whole answer: its tokens, why it ended, and its identity."""

    id: str
    model: str
    tokens: Sequence[str]
    input_tokens: int
    finish: str

    def usage(self) -> dict[str, int]:
        """In the protocol's words."""
        output = len(self.tokens)
        return {
            "prompt_tokens": self.input_tokens,
            "completion_tokens": output,
            "total_tokens": self.input_tokens + output,
        }

    def completion(self, *, usage: bool) -> dict[str, object]:
        """The answer in one piece."""
        message = {"role": "assistant", "content": "".join(self.tokens)}
        choice = {"index": 0, "message": message, "finish_reason": self.finish}
        body = self._head("chat.completion") | {"choices": [choice]}
        return body | {"usage": self.usage()} if usage else body

    def token_chunk(self, n: int) -> bytes:
        """The event of token ``n``; the first one names the role."""
        delta = {"content": self.tokens[n]} | ({"role": "assistant"} if n == 0 else {})
        return self._chunk([{"index": 0, "delta": delta, "finish_reason": None}])

    def finish_chunk(self) -> bytes:
        """The event that says why the answer ended."""
        return self._chunk([{"index": 0, "delta": {}, "finish_reason": self.finish}])

    def usage_chunk(self) -> bytes:
        """The event without choices that reports usage."""
        return event(self._head("chat.completion.chunk") | {"choices": [], "usage": self.usage()})

    def _chunk(self, choices: list[dict[str, object]]) -> bytes:
        return event(self._head("chat.completion.chunk") | {"choices": choices})

    def _head(self, kind: str) -> dict[str, object]:
        return {"id": self.id, "object": kind, "created": CREATED, "model": self.model}


DONE: Final = b"data: [DONE]\n\n"


def event(body: Mapping[str, object]) -> bytes:
    """One server-sent event."""
    return f"data: {json.dumps(body, separators=(',', ':'))}\n\n".encode()


def error_body(status: int, message: str, code: str) -> dict[str, object]:
    """An error in the protocol's shape."""
    kind = responses.get(status, "Unknown Error").lower().replace(" ", "_")
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def parse(body: bytes) -> ChatRequest:
    """Raises ``BadRequest``."""
    try:
        request = json.loads(body)
    except ValueError as error:
        raise BadRequest(f"the body is not JSON: {error}") from error
    if not isinstance(request, dict):
        raise BadRequest("the body must be an object")
    options = request.get("stream_options") or {}
    return ChatRequest(
        model=_text(request, "model"),
        prompt=Prompt(
            contents=_contents(request.get("messages")), max_tokens=_limit(request), seed=_seed(request)
        ),
        stream=request.get("stream") is True,
        include_usage=isinstance(options, dict) and options.get("include_usage") is True,
    )


def _text(request: Mapping[str, object], name: str) -> str:
    value = request.get(name)
    if not isinstance(value, str) or not value:
        raise BadRequest(f"{name} must be a string")
    return value


def _contents(messages: object) -> tuple[str, ...]:
    if not isinstance(messages, list) or not messages:
        raise BadRequest("messages must be a list that is not empty")
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("content"), str):
            raise BadRequest("messages: each needs a role and a content of text")
    return tuple(message["content"] for message in messages)


def _limit(request: Mapping[str, object]) -> int | None:
    limit = request.get("max_completion_tokens", request.get("max_tokens"))
    if limit is not None and (not isinstance(limit, int) or limit < 1):
        raise BadRequest("max_tokens must be a positive integer")
    return limit


def _seed(request: Mapping[str, object]) -> int:
    seed = request.get("seed") or 0
    if not isinstance(seed, int):
        raise BadRequest("seed must be an integer")
    return seed
