"""A provider that answers at once, in this process: what is left is what a job costs us."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from jobs_store.rate_card import Usage
from worker.providers.protocol import Capabilities, Delta, Finished, NoAnswer, UsageReport

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from budget.core import Budget
    from worker.providers.protocol import GenerationEvent, GenerationRequest, LookUp

ANSWER: Final[Sequence[GenerationEvent]] = (
    Delta(text="Hello there."),
    UsageReport(usage=Usage(input_tokens=12, output_tokens=3)),
    Finished(finish_reason="stop", provider_request_id="instant"),
)


class InstantProvider:
    """Behind the same protocol as a real one. `calls`: when each came, by its request key, if noted."""

    name = "instant"
    capabilities = Capabilities()

    def __init__(self) -> None:
        self.noting = False
        self.calls: dict[str, float] = {}

    @asynccontextmanager
    async def stream(
        self, request: GenerationRequest, *, budget: Budget
    ) -> AsyncIterator[AsyncIterator[GenerationEvent]]:
        """The same answer for everybody."""
        del budget  # nothing takes time here
        if self.noting:
            self.calls[request.request_key] = time.time()
        yield _answer()

    async def look_up(self, request_key: str, *, budget: Budget) -> LookUp:
        """Nothing is kept."""
        del request_key, budget
        return NoAnswer()

    async def close(self, *, budget: Budget) -> None:
        """Nothing is open."""


async def _answer() -> AsyncIterator[GenerationEvent]:
    for event in ANSWER:
        yield event
