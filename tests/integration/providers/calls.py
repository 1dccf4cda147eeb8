"""Calls that the tests of providers make."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from budget.core import Budget
from worker.providers.protocol import Delta, Finished, GenerationRequest, Message, UsageReport

if TYPE_CHECKING:
    from worker.providers.protocol import Provider


@dataclass(slots=True)
class Heard:
    """What a stream said."""

    text: str = ""
    deltas: int = 0
    usage: UsageReport | None = None
    finished: Finished | None = None
    order: list[str] = field(default_factory=list)


def request(
    model: str, *, key: str | None = None, prompt: str = "Tell me of sand.", limit: int = 1000
) -> GenerationRequest:
    """A request for one answer."""
    return GenerationRequest(
        model=model,
        messages=(Message(role="user", content=prompt),),
        max_output_tokens=limit,
        request_key=key or str(uuid.uuid4()),
        seed=1,
    )


async def read(
    provider: Provider, asked: GenerationRequest, *, budget: Budget | None = None, heard: Heard | None = None
) -> Heard:
    """Reads a whole answer into `heard`, which keeps what came before a failure."""
    heard = heard if heard is not None else Heard()
    async with provider.stream(asked, budget=budget or Budget.for_work(10.0)) as events:
        async for event in events:
            heard.order.append(type(event).__name__)
            match event:
                case Delta():
                    heard.text += event.text
                    heard.deltas += 1
                case UsageReport():
                    heard.usage = event
                case Finished():
                    heard.finished = event
    return heard
