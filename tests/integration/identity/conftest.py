"""A JobService that knows its callers."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.identity.callers import Known, knowing
from tests.postgres import TestDatabase


@pytest.fixture
async def known(database: TestDatabase, tmp_path: Path) -> AsyncIterator[Known]:
    async with knowing(database, tmp_path, api_key_age=0.2) as running:
        yield running
