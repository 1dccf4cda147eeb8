"""A PgBouncer in transaction mode before a test's server. It is Debian's package `pgbouncer`."""

import asyncio
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from launcher.postgres_binaries import Binaries
from launcher.roles import ROLES
from tests.postgres import TestDatabase, fast_folder
from tests.waiting import eventually

HOW_TO_INSTALL = "apt-get install pgbouncer"
PROGRAM = next((path for path in (shutil.which("pgbouncer"), "/usr/sbin/pgbouncer") if path), "")
STOP_LIMIT = 10.0
PORT = 6432  # names the socket file; nothing listens on TCP
SERVER_CONNECTIONS = 3
"""Of each role: fewer than a service holds, so that statements of one client run on changing sessions."""


def describe() -> str:
    """For the header of a test run."""
    if not installed():
        return f"pgbouncer: none found, so nothing runs through it: {HOW_TO_INSTALL}"
    return f"pgbouncer: {version()} at {PROGRAM}"


def installed() -> bool:
    """Whether there is one."""
    return Path(PROGRAM).exists()


def version() -> str:
    """Such as 1.18.0."""
    printed = subprocess.run([PROGRAM, "--version"], check=True, capture_output=True, text=True, timeout=10)
    found = re.search(r"\d+(\.\d+)+", printed.stdout)
    assert found is not None, printed.stdout
    return found.group()


class Bouncer:
    """A running one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def through(self, dsn: str) -> str:
        """The same database as the same role, by way of the pooler."""
        parts = urlsplit(dsn)
        return f"postgresql://{parts.username}@{parts.path}?host={self._folder}&port={PORT}"


@asynccontextmanager
async def bouncer(database: TestDatabase, binaries: Binaries) -> AsyncIterator[Bouncer]:
    """One before the server of a test's database, run by the server's user, in a folder of its own."""
    folder = Path(tempfile.mkdtemp(prefix="hourglass-bouncer-", dir=fast_folder()))
    try:
        process = await _start(_configured(database, binaries, folder), binaries)
        try:
            await eventually((folder / f".s.PGSQL.{PORT}").exists)
            yield Bouncer(folder)
        finally:
            process.terminate()
            async with asyncio.timeout(STOP_LIMIT):
                await process.wait()
    finally:
        shutil.rmtree(folder)


def _configured(database: TestDatabase, binaries: Binaries, folder: Path) -> Path:
    host = parse_qs(urlsplit(database.owner).query)["host"][0]
    users, configuration = folder / "users.txt", folder / "pgbouncer.ini"
    users.write_text("".join(f'"{role}" ""\n' for role in ROLES))
    configuration.write_text(
        f"""
[databases]
{database.name} = host={host} port=5432 dbname={database.name}
[pgbouncer]
unix_socket_dir = {folder}
listen_port = {PORT}
auth_type = trust
auth_file = {users}
pool_mode = transaction
default_pool_size = {SERVER_CONNECTIONS}
logfile = {folder / "pgbouncer.log"}
"""
    )
    if binaries.user_id is not None and binaries.group_id is not None:
        for path in (folder, users, configuration):
            os.chown(path, binaries.user_id, binaries.group_id)
    return configuration


async def _start(configuration: Path, binaries: Binaries) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        PROGRAM,
        "--quiet",
        configuration,
        user=binaries.user_id,
        group=binaries.group_id,
        extra_groups=None if binaries.user_id is None else [],
    )
