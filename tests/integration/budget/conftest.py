"""A database with a table of things, and somebody who looks at it from outside."""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from budget.core import Budget
from budget.postgres import Database
from tests.integration.budget.things import SIZE
from tests.postgres import TestDatabase


@pytest.fixture
async def observer(empty_database: TestDatabase) -> AsyncIterator["asyncpg.Connection[Any]"]:
    """Somebody else's session, who also looks at the server's own view of ours."""
    connection = await asyncpg.connect(empty_database.owner)
    await connection.execute("CREATE TABLE things (id int PRIMARY KEY, size int CHECK (size > 0))")
    yield connection
    await connection.close()


@pytest.fixture
async def db(empty_database: TestDatabase, observer: object) -> AsyncIterator[Database]:
    opened = await Database.open(
        empty_database.owner, budget=Budget.for_work(10), size=SIZE, application_name="under-test"
    )
    yield opened
    await opened.close(Budget.for_work(5))
