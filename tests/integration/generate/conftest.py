"""The simulated provider in a process of its own; JobService and a worker over a fresh database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.generate.callers import Callers, open_callers
from tests.model_server import model_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.postgres import TestDatabase


@pytest.fixture(scope="session")
def simulated() -> Iterator[str]:
    """Base URL of a running simulated model server."""
    with model_server("model_servers.simulated") as url:
        yield url


@pytest.fixture
async def callers(database: TestDatabase, simulated: str) -> AsyncIterator[Callers]:
    """Callers of a tenant with ten dollars."""
    async with open_callers(database, simulated) as opened:
        yield opened
