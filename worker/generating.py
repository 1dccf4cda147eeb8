"""One short call for a caller who waits: straight to the provider, under what is left of the caller's time.

There is no row of a job behind it, and nothing of it is kept here. Whoever leaves, the caller, its server or
the time, the call ends with: leaving the provider's block closes its connection.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from jobs_store.attempts import ProviderCost
from jobs_store.rate_card import MAX_TOKENS, RateCard, Usage
from jobs_store.states import CostBasis
from servicekit.errors import Draining
from worker.errors import NoFreeSlot, ProviderFailed
from worker.providers.errors import ProviderError
from worker.providers.protocol import Delta, Finished, GenerationRequest, UsageReport
from worker.run import Answer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from budget.core import Budget
    from jobs_store.states import FinishReason
    from worker.outcome import Answered
    from worker.providers.protocol import Provider
    from worker.run import Providers
    from worker.slots import Slots

_log = structlog.stdlib.get_logger("hourglass.worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortCall:
    """What is asked, at which prices; its request key is the call's id."""

    request: GenerationRequest
    provider_rate_card: RateCard
    input_token_estimate: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSent:
    """The provider is called now."""

    provider: str
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Text of the answer, one chunk of the provider. offset: code points that came before it."""

    text: str
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """A whole answer's end. The cost is the operator's, in dollars."""

    finish_reason: FinishReason
    usage: Usage
    cost: ProviderCost
    provider_request_id: str


class Generating:
    """Runs short calls in slots of their own, so that they and the jobs do not starve each other."""

    def __init__(self, providers: Providers, slots: Slots, *, draining: Callable[[], bool]) -> None:
        self._providers = providers
        self._slots = slots
        self._draining = draining

    async def generate(
        self, call: ShortCall, tell: Callable[[CallSent | Piece], Awaitable[None]], *, budget: Budget
    ) -> Generated:
        """Tells the answer piece by piece, as fast as `tell` takes it, and returns its end.

        Raises Draining, NoFreeSlot, UnroutedModel (nothing was told, no provider called); ProviderFailed.
        """
        if self._draining():
            raise Draining
        provider = self._providers.find(call.request.model)
        with self._slot():
            await tell(CallSent(provider=provider.name, model=call.request.model))
            reading = _Reading(call, tell)
            try:
                await reading.read(provider, budget=budget)
            except ProviderError as error:
                _log.info("a short call failed", call=reading.key, error=str(error), kind=error.kind)
                raise ProviderFailed(error) from error
            return reading.generated()

    @contextmanager
    def _slot(self) -> Iterator[None]:
        if self._slots.free == 0:
            raise NoFreeSlot(self._slots.count)
        self._slots.take(1)
        try:
            yield
        finally:
            self._slots.give_back()


class _Reading:
    """One answer on its way through."""

    def __init__(self, call: ShortCall, tell: Callable[[Piece], Awaitable[None]]) -> None:
        self.key = call.request.request_key
        self._call = call
        self._tell = tell
        self._answer = Answer()
        self._length = 0
        self._chunks = 0

    async def read(self, provider: Provider, *, budget: Budget) -> None:
        async with provider.stream(self._call.request, budget=budget) as events:
            async for event in events:
                match event:
                    case Delta(text=text):
                        await self._tell(Piece(text=text, offset=self._length))
                        self._length += len(text)
                        self._chunks += 1
                    case UsageReport(usage=usage):
                        self._answer.usage = usage
                    case Finished():
                        self._answer.finished = event

    def generated(self) -> Generated:
        answered = self._answer.end()
        assert answered is not None, "a stream that ends well ends with Finished"
        usage, basis = self._usage(answered)
        return Generated(
            finish_reason=answered.finish_reason,
            usage=usage,
            cost=ProviderCost.known(self._call.provider_rate_card, usage, basis),
            provider_request_id=answered.provider_request_id,
        )

    def _usage(self, answered: Answered) -> tuple[Usage, CostBasis]:
        """The provider's count, or ours: a chunk has a token at least."""
        if answered.usage is not None:
            return answered.usage, CostBasis.REPORTED
        estimate = Usage(
            input_tokens=self._call.input_token_estimate, output_tokens=min(self._chunks, MAX_TOKENS)
        )
        return estimate, CostBasis.ESTIMATED
