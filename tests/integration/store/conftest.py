"""Fixtures of the store's tests."""

from collections.abc import AsyncIterator

import pytest

from tests.postgres import TestDatabase
from tests.store import Store, open_store


@pytest.fixture
async def store(database: TestDatabase) -> AsyncIterator[Store]:
    """The store over a fresh database."""
    async with open_store(database) as opened:
        yield opened
