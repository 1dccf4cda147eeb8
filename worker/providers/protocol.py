"""What a provider of language models is, to the rest of the worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager

    from budget.core import Budget
    from jobs_store.rate_card import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What can be done about a call whose outcome is unknown.

    idempotency_key: the provider runs a request key once and answers a repeated one with the same answer.
    look_up: an answer can be asked for by its request key.
    cancel: closing the connection stops the generation, and what it costs.
    """

    idempotency_key: bool = False
    look_up: bool = False
    cancel: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a prompt."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """One call. `request_key` is the stable id of the attempt; None leaves an option to the provider."""

    model: str
    messages: tuple[Message, ...]
    max_output_tokens: int
    request_key: str
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """A piece of the answer, never empty, in a form that Postgres can store."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport:
    """The provider's own count of tokens. Comes at most once, right before the end."""

    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The answer is whole. Always the last event of a stream that ends well.

    finish_reason: the provider's word, such as `stop` or `length`.
    provider_request_id: empty if it gave none.
    """

    finish_reason: str
    provider_request_id: str


GenerationEvent = Delta | UsageReport | Finished


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundAnswer:
    """A look-up found the whole answer. `usage` is None if the provider did not count."""

    text: str
    finish_reason: str
    provider_request_id: str
    usage: Usage | None


class StillRunning:
    """A look-up found that the provider still works on the answer."""


class NoAnswer:
    """A look-up found that the provider has, and will have, no answer under this key."""


LookUp = FoundAnswer | StillRunning | NoAnswer


class Provider(Protocol):
    """A language model behind a network."""

    @property
    def name(self) -> str:
        """The provider's name, the first part of its lanes."""

    @property
    def capabilities(self) -> Capabilities:
        """What it can do beyond answering."""

    def stream(
        self, request: GenerationRequest, *, budget: Budget
    ) -> AbstractAsyncContextManager[AsyncIterator[GenerationEvent]]:
        """Sends the request on entry; inside the block its answer is read, event by event.

        Leaving the block closes the connection, in every ending. What leaves it is ProviderError, unless the
        body raised something of its own. The whole block is bounded by the budget and the route's total, so
        keep out of it what must not be interrupted, such as storing the result.
        """

    async def look_up(self, request_key: str, *, budget: Budget) -> LookUp:
        """Asks for an answer by its request key; only where `capabilities.look_up`. Raises ProviderError."""

    async def close(self, *, budget: Budget) -> None:
        """Closes the connections."""
