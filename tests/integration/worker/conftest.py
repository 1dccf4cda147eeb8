"""The simulated provider in a process of its own, and workers over a fresh database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.worker.workers import Bench, open_bench
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
async def bench(database: TestDatabase, simulated: str) -> AsyncIterator[Bench]:
    """Jobs, and workers to run them."""
    async with open_bench(database, simulated) as bench:
        yield bench
