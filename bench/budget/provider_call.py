"""A call of a language model that never says a first token, through the worker's own adapter."""

from typing import Final
from uuid import uuid4

from bench.budget.limits import PROVIDER_FIRST_TOKEN
from budget.core import Budget
from budget.errors import FirstByteTimeout
from worker.providers.errors import Cause, ProviderError
from worker.providers.openai_compatible import OpenAICompatible
from worker.providers.protocol import GenerationRequest, Message
from worker.providers.routes import ProviderRoute

_ROUTE: Final = "simulated"
_STALLING: Final = "simulated-stall-first"
_TIMEOUTS: Final = frozenset({Cause.FIRST_TOKEN_TIMEOUT, Cause.TOTAL_TIMEOUT})


class ProviderCall:
    """One route to a model server that stalls."""

    def __init__(self, base_url: str) -> None:
        self._provider = OpenAICompatible(
            ProviderRoute(
                name=_ROUTE,
                models=("*",),
                base_url=f"{base_url}/v1",
                first_token=PROVIDER_FIRST_TOKEN,
                between_tokens=PROVIDER_FIRST_TOKEN,
                total=PROVIDER_FIRST_TOKEN,
            )
        )

    async def first_token(self, budget: Budget) -> None:
        """Waits for an event of the answer. FirstByteTimeout when there is none in time."""
        request = GenerationRequest(
            model=_STALLING,
            messages=(Message(role="user", content="Say nothing."),),
            max_output_tokens=8,
            request_key=str(uuid4()),
        )
        try:
            async with self._provider.stream(request, budget=budget) as events:
                await anext(events)
        except ProviderError as error:
            if error.cause not in _TIMEOUTS:
                raise
            raise FirstByteTimeout(dependency=_ROUTE, method="stream", limit=PROVIDER_FIRST_TOKEN) from error

    async def close(self) -> None:
        """Closes its connections."""
        await self._provider.close(budget=Budget.for_work(1.0))
