"""The simulated model server in its own process, and a provider that talks to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from budget.core import Budget
from tests.model_server import model_server
from worker.providers.openai_compatible import OpenAICompatible
from worker.providers.routes import ProviderRoute

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


@pytest.fixture(scope="session")
def simulated() -> Iterator[str]:
    """Base URL of a running simulated model server."""
    with model_server("model_servers.simulated") as url:
        yield url


@pytest.fixture
def route(simulated: str) -> ProviderRoute:
    """A route to it: short limits for silence, a long one for connecting, because the machine may be busy."""
    return ProviderRoute(
        name="simulated",
        models=("simulated*",),
        base_url=f"{simulated}/v1",
        idempotency_key=True,
        cancel=True,
        look_up_path="/chat/completions/by-request/{key}",
        connect=5.0,
        first_token=1.0,
        between_tokens=0.5,
        total=30.0,
    )


@pytest.fixture
async def provider(route: ProviderRoute) -> AsyncIterator[OpenAICompatible]:
    """The adapter on that route."""
    adapter = OpenAICompatible(route)
    yield adapter
    await adapter.close(budget=Budget.for_work(5.0))
