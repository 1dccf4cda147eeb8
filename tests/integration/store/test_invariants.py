"""Each invariant notices what breaks it, by name and id, and nothing else does."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass

import asyncpg
import pytest

from jobs_store.invariants.registry import INVARIANTS
from jobs_store.verification import VerificationTerms
from tests.integration.store.corruptions import CORRUPTIONS, DROP_CONSTRAINTS, STRAY, Corruption
from tests.integration.store.populated import populate
from tests.integration.store.verifying import found_in, pages_of
from tests.postgres import TestDatabase, TestServer
from tests.store import open_store

pytestmark = pytest.mark.timeout(120)

PATIENT = VerificationTerms(overdue=1800.0)
"""What is healthy stays so for all tests of this module, however long they take."""


@dataclass(frozen=True, slots=True)
class Populated:
    """A database that is copied for each test, and the ids in it by name."""

    name: str
    ids: Mapping[str, str]


@pytest.fixture(scope="module")
def populated(postgres_server: TestServer) -> Iterator[Populated]:
    """Made once; nobody is connected to it."""
    with asyncio.Runner() as runner:
        context = postgres_server.database()
        database = runner.run(context.__aenter__())
        try:
            yield Populated(database.name, runner.run(fill(database)))
        finally:
            runner.run(context.__aexit__(None, None, None))


async def fill(database: TestDatabase) -> Mapping[str, str]:
    async with open_store(database) as store:
        return await populate(store)


@pytest.fixture
async def healthy(postgres_server: TestServer, populated: Populated) -> AsyncIterator[TestDatabase]:
    """A copy."""
    async with postgres_server.database(template=populated.name) as database:
        yield database


async def corrupt(database: TestDatabase, change: Corruption, ids: Mapping[str, str]) -> tuple[str, str]:
    """Breaks something; answers whose and what."""
    connection = await asyncpg.connect(database.owner)
    try:
        await connection.execute(DROP_CONSTRAINTS)
        if change.subject == STRAY:
            return change.tenant, str(await connection.fetchval(change.sql))
        done = await connection.execute(change.sql.format_map(ids))
        assert not done.endswith(" 0"), "the change hit nothing"
        return change.tenant, change.subject.format_map(ids)
    finally:
        await connection.close()


def test_there_is_a_change_that_breaks_each_invariant() -> None:
    assert set(INVARIANTS) == set(CORRUPTIONS)


async def test_all_invariants_hold_over_a_healthy_database(healthy: TestDatabase) -> None:
    pages = await pages_of(healthy, PATIENT)
    assert {} == found_in(pages)
    assert [] == [page.invariant for page in pages if page.checked == 0]


@pytest.mark.parametrize("name", INVARIANTS)
async def test_what_breaks_an_invariant_is_named_and_nothing_else(
    healthy: TestDatabase, populated: Populated, name: str
) -> None:
    broken = await corrupt(healthy, CORRUPTIONS[name], populated.ids)
    assert {name: [broken]} == found_in(await pages_of(healthy, PATIENT))
