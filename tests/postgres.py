"""Databases for tests: one server for a run, one migrated template in it, a copy of that for every test."""

import asyncio
import itertools
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from budget.core import Budget
from launcher.postgres import RunningPostgres, start
from launcher.postgres_binaries import Binaries
from launcher.roles import READONLY, REQUEST, WORKER, role_dsn
from migrations.runner import migrate

TEMPLATE = "hourglass_template"
MEMORY = Path("/dev/shm")
MEMORY_NEEDED = 2 * 1024**3
START_LIMIT = 60.0
STOP_LIMIT = 20.0
# A test's data need not survive a power cut; everything else is as in production.
SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "64MB",
    "autovacuum_naptime": "1h",
    "log_min_messages": "warning",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TestDatabase:
    """A fresh, migrated database: its name, and a DSN for the owner and for each role of the services."""

    __test__ = False

    name: str
    owner: str

    @property
    def request(self) -> str:
        """As the request path connects."""
        return role_dsn(self.owner, REQUEST)

    @property
    def worker(self) -> str:
        """As the worker and the reaper connect."""
        return role_dsn(self.owner, WORKER)

    @property
    def readonly(self) -> str:
        """As reports connect."""
        return role_dsn(self.owner, READONLY)


@dataclass(frozen=True, slots=True, kw_only=True)
class TestServer:
    """A running server of the test run."""

    __test__ = False

    running: RunningPostgres
    numbers: Iterator[int]

    @asynccontextmanager
    async def database(self, *, template: str = TEMPLATE) -> AsyncIterator[TestDatabase]:
        """Make a database from a template (`template0`: an empty one), and drop it at the end."""
        name = f"test_{next(self.numbers)}"
        await self.administer(f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY file_copy')
        try:
            yield TestDatabase(name=name, owner=self.running.database_dsn(name))
        finally:
            await self.administer(f'DROP DATABASE "{name}" WITH (FORCE)')

    async def administer(self, statement: str) -> None:
        """Run one statement as the superuser, outside every test's database."""
        connection = await asyncpg.connect(self.running.dsn)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    async def prepare(self) -> None:
        """Make the migrated template."""
        await self.administer(f'CREATE DATABASE "{TEMPLATE}"')
        await migrate(self.running.database_dsn(TEMPLATE), budget=Budget.for_work(START_LIMIT))


@contextmanager
def server(binaries: Binaries) -> Iterator[TestServer]:
    """Start a server in a folder of its own, with a migrated template; remove all of it at the end."""
    folder = Path(tempfile.mkdtemp(prefix="hourglass-test-", dir=fast_folder()))
    folder.chmod(0o711)
    try:
        running = start(
            folder / "data", budget=Budget.for_work(START_LIMIT), binaries=binaries, settings=SETTINGS
        )
        try:
            started = TestServer(running=running, numbers=itertools.count(1))
            asyncio.run(started.prepare())
            yield started
        finally:
            running.stop(budget=Budget.for_work(STOP_LIMIT))
    finally:
        shutil.rmtree(folder)


def fast_folder() -> Path | None:
    """Memory where there is enough of it: a copy of the template, 750 files, takes 20 ms there."""
    enough = MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > MEMORY_NEEDED
    return MEMORY if enough else None
