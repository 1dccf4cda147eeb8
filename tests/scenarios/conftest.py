"""Stages on which the scenarios play."""

from collections.abc import AsyncIterator, Iterator

import pytest
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from tests.model_server import model_server
from tests.postgres import TestDatabase
from tests.scenarios.stage import Stage, staged


@pytest.fixture
async def stage(database: TestDatabase) -> AsyncIterator[Stage]:
    """JobService behind proxies, over a fresh database."""
    async with staged(database) as made:
        yield made


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemoryMetricReader]:
    """What the servers of this test measure; to be asked for before they are made."""
    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader], shutdown_on_exit=False)
    monkeypatch.setattr(metrics, "get_meter", provider.get_meter)
    yield reader
    provider.shutdown()


@pytest.fixture(scope="session")
def simulated() -> Iterator[str]:
    """Base URL of a running simulated model server."""
    with model_server("model_servers.simulated") as url:
        yield url
