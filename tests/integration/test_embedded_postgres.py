"""What the launcher promises about its own PostgreSQL server."""

import asyncio
import os
import signal
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import asyncpg
import psutil
import pytest

from budget.core import Budget
from launcher import postgres_binaries
from launcher.errors import PostgresError
from launcher.postgres import RunningPostgres, start, stop
from tests.postgres import fast_folder
from tests.waiting import eventually

SETTINGS = {"shared_buffers": "16MB", "fsync": "off"}


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the server's user can reach, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="hourglass-test-", dir=fast_folder()) as name:
        Path(name).chmod(0o711)
        yield Path(name)
        stop(Path(name) / "data", budget=Budget.for_work(10.0))


def started(folder: Path) -> RunningPostgres:
    return start(folder / "data", budget=Budget.for_work(30.0), settings=SETTINGS)


def process_id(folder: Path) -> int:
    return int((folder / "data" / "postmaster.pid").read_text().split()[0])


async def value(dsn: str, statement: str) -> object:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


async def kill(process: int) -> None:
    """SIGKILL a server and wait for its end; its children notice and follow."""
    children = psutil.Process(process).children()
    os.kill(process, signal.SIGKILL)
    await eventually(lambda: not any(child.is_running() for child in children))


async def test_data_is_kept_between_runs(folder: Path) -> None:
    first = started(folder)
    await value(first.dsn, "CREATE TABLE kept ()")
    first.stop(budget=Budget.for_work(10.0))

    second = started(folder)

    assert "kept" == await value(second.dsn, "SELECT 'kept'::regclass::text")


async def test_it_listens_on_a_socket_that_only_its_user_can_reach(folder: Path) -> None:
    server = started(folder)

    assert "" == await value(server.dsn, "SHOW listen_addresses")
    assert 0o700 == server.socket_directory.stat().st_mode & 0o777


async def test_durability_is_the_default_one(folder: Path) -> None:
    server = start(folder / "data", budget=Budget.for_work(30.0))

    asked = "SELECT string_agg(setting, ' ' ORDER BY name) FROM pg_settings WHERE name = ANY($${}$$)"
    names = "{fsync,full_page_writes,synchronous_commit}"
    assert "on on on" == await value(server.dsn, asked.replace("{}", names))


async def test_a_running_server_is_used_and_not_stopped_by_who_found_it(folder: Path) -> None:
    first = started(folder)
    second = started(folder)

    second.stop(budget=Budget.for_work(10.0))

    assert (True, False) == (first.started, second.started)
    assert 1 == await value(first.dsn, "SELECT 1")


def test_launchers_at_the_same_time_start_one_server(folder: Path) -> None:
    with ThreadPoolExecutor(4) as threads:
        servers = list(threads.map(lambda _: started(folder), range(4)))

    assert [False, False, False, True] == sorted(server.started for server in servers)
    assert 1 == len({server.dsn for server in servers})


async def test_a_killed_server_recovers_with_its_data(folder: Path) -> None:
    server = started(folder)
    await value(server.dsn, "CREATE TABLE kept ()")
    await kill(process_id(folder))

    again = started(folder)

    assert again.started
    assert "kept" == await value(again.dsn, "SELECT 'kept'::regclass::text")


async def test_a_process_id_that_somebody_else_has_now_does_not_prevent_the_start(folder: Path) -> None:
    server = started(folder)
    await kill(process_id(folder))
    stale = folder / "data" / "postmaster.pid"
    stale.write_text(stale.read_text().replace(stale.read_text().split()[0], str(os.getpid()), 1))

    again = started(folder)

    assert again.started
    assert 1 == await value(server.dsn, "SELECT 1")


def test_a_long_path_gets_a_socket_elsewhere(folder: Path) -> None:
    deep = folder / ("deep" * 30)

    server = start(deep / "data", budget=Budget.for_work(30.0), settings=SETTINGS)

    try:
        assert 1 == asyncio.run(value(server.dsn, "SELECT 1"))
        assert 0o700 == server.socket_directory.stat().st_mode & 0o777
    finally:
        server.stop(budget=Budget.for_work(10.0))
        server.socket_directory.rmdir()


def test_a_server_that_does_not_start_says_why(folder: Path) -> None:
    with pytest.raises(PostgresError, match="shared_buffers"):
        start(folder / "data", budget=Budget.for_work(30.0), settings={"shared_buffers": "much"})


def test_data_of_another_version_is_left_alone(folder: Path) -> None:
    started(folder).stop(budget=Budget.for_work(10.0))
    (folder / "data" / "PG_VERSION").write_text("14\n")

    with pytest.raises(PostgresError, match=r"made by PostgreSQL 14 .*`make clean-data`"):
        started(folder)


def test_a_folder_that_is_something_else_is_left_alone(folder: Path) -> None:
    (folder / "data").mkdir()
    binaries = postgres_binaries.embedded()
    if binaries.user_id is not None:
        os.chown(folder / "data", binaries.user_id, -1)
    (folder / "data" / "notes.txt").write_text("mine")

    with pytest.raises(PostgresError, match="not a PostgreSQL data directory"):
        started(folder)

    assert "mine" == (folder / "data" / "notes.txt").read_text()


def test_an_interrupted_first_start_is_begun_again(folder: Path) -> None:
    (folder / "data.unfinished").mkdir()
    (folder / "data.unfinished" / "PG_VERSION").write_text("18\n")

    assert started(folder).started
