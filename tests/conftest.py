"""Fixtures of all tests.

`database` is a fresh, migrated database. It lies on the embedded PostgreSQL; tests marked `every_postgres`
run on a PostgreSQL 15 of the system too, when there is one. HOURGLASS_TEST_POSTGRES=embedded or =system
leaves one of the two.
"""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from launcher import postgres_binaries
from launcher.postgres_binaries import Binaries
from tests import bouncer, prometheus, stepped_clock
from tests.certificates import Authority
from tests.postgres import TestDatabase, TestServer, server

EMBEDDED = "embedded"
SYSTEM = "system"
SYSTEM_MAJOR = 15
# Nothing stands in for a pooler. The report header says when there is none.
collect_ignore = [] if bouncer.installed() else ["scenarios/test_bouncer.py"]
FORCED = os.environ.get("HOURGLASS_TEST_POSTGRES", "")


def _binaries(edition: str) -> Binaries | None:
    return postgres_binaries.embedded() if edition == EMBEDDED else postgres_binaries.system(SYSTEM_MAJOR)


def pytest_configure() -> None:
    """Refuse an impossible choice before any test runs."""
    if FORCED not in {"", EMBEDDED, SYSTEM}:
        raise pytest.UsageError(f"HOURGLASS_TEST_POSTGRES={FORCED}: embedded or system")
    if FORCED == SYSTEM and _binaries(SYSTEM) is None:
        raise pytest.UsageError(f"HOURGLASS_TEST_POSTGRES=system: there is no PostgreSQL {SYSTEM_MAJOR} here")


def pytest_report_header() -> list[str]:
    """Say on which servers the run stands, what steps its clocks, and what it has to do without."""
    servers = "; ".join(_describe(edition) for edition in (EMBEDDED, SYSTEM))
    return [f"postgres: {servers}", bouncer.describe(), stepped_clock.describe(), prometheus.describe()]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test on the servers that it asks for."""
    if "postgres_edition" in metafunc.fixturenames:
        every = metafunc.definition.get_closest_marker("every_postgres") is not None
        metafunc.parametrize("postgres_edition", _editions(every=every), scope="session")


def _editions(*, every: bool) -> list[object]:
    """The second server repeats what the first has shown, so it runs with the slow tests."""
    if FORCED:
        return [FORCED]
    again = pytest.param(SYSTEM, marks=pytest.mark.older_postgres)
    return [EMBEDDED, again] if every and _binaries(SYSTEM) is not None else [EMBEDDED]


def _describe(edition: str) -> str:
    binaries = _binaries(edition)
    if binaries is None:
        return f"no system PostgreSQL {SYSTEM_MAJOR} found, so nothing runs on it"
    if FORCED and edition != FORCED:
        return f"not on {edition} {binaries.version}"
    tests = "every_postgres tests" if edition == SYSTEM and not FORCED else "all tests"
    return f"{tests} on {edition} {binaries.version}"


@pytest.fixture(scope="session")
def postgres_server(postgres_edition: str) -> Iterator[TestServer]:
    """One server for all tests of its edition."""
    binaries = _binaries(postgres_edition)
    assert binaries is not None
    with server(binaries) as running:
        yield running


@pytest.fixture
async def database(postgres_server: TestServer) -> AsyncIterator[TestDatabase]:
    """A fresh database with the whole schema."""
    async with postgres_server.database() as fresh:
        yield fresh


@pytest.fixture
async def empty_database(postgres_server: TestServer) -> AsyncIterator[TestDatabase]:
    """A fresh database without anything in it."""
    async with postgres_server.database(template="template0") as fresh:
        yield fresh


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Whom a test trusts."""
    return Authority(folder=tmp_path)


@pytest.fixture
def other(tmp_path: Path) -> Authority:
    """Whom it does not trust at first."""
    (tmp_path / "other").mkdir()
    return Authority(folder=tmp_path / "other")
