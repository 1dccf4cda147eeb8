"""Fixtures of the store's tests."""

from collections.abc import AsyncIterator

import pytest

from tests.postgres import TestDatabase
from tests.store import BUSY_POOL, Store, open_store


@pytest.fixture
async def store(database: TestDatabase) -> AsyncIterator[Store]:
    """The store over a fresh database."""
    async with open_store(database) as opened:
        yield opened


@pytest.fixture
async def busy_store(database: TestDatabase) -> AsyncIterator[Store]:
    """As `store`, with connections for a crowd."""
    async with open_store(database, pool=BUSY_POOL) as opened:
        yield opened
