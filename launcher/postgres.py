"""A PostgreSQL server of the project's own: started when it is needed, its data kept between runs.

It listens on a unix socket only and trusts whoever can open that socket; the socket lies in a folder that
only the server's user (and root) can enter. `python -m launcher.postgres stop` ends one left behind.
"""

import fcntl
import hashlib
import logging
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import quote

import psutil

from budget.core import Budget
from launcher.errors import PostgresError
from launcher.postgres_binaries import Binaries, embedded

OWNER = "hourglass"
DATABASE = "postgres"
DATA_DIRECTORY = Path(__file__).resolve().parent.parent / ".hourglass" / "postgres"
START_LIMIT = 60.0
STOP_LIMIT = 30.0
LOCK_POLL_INTERVAL = 0.05
PORT = 5432  # names the socket file; nothing listens on TCP
SOCKET_PATH_LIMIT = 103  # bytes, the tightest sun_path less its final zero
SETTINGS: Mapping[str, str] = {
    "listen_addresses": "",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
}

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningPostgres:
    """A server that answers. `started` tells whether this call started it or found it running."""

    binaries: Binaries
    data_directory: Path
    socket_directory: Path
    started: bool

    @property
    def dsn(self) -> str:
        """Where the owner (a superuser) connects."""
        return self.database_dsn(DATABASE)

    def database_dsn(self, database: str) -> str:
        """Where the owner connects to one of the server's databases."""
        return f"postgresql://{OWNER}@/{database}?host={quote(str(self.socket_directory))}&port={PORT}"

    def stop(self, *, budget: Budget) -> None:
        """End the server, cutting its connections; do nothing if it was running before we came.

        Raises:
            PostgresError: it did not end within the budget.
        """
        if self.started:
            _stop(self.binaries, self.data_directory, budget=budget)


def start(
    data_directory: Path,
    *,
    budget: Budget,
    binaries: Binaries | None = None,
    settings: Mapping[str, str] | None = None,
) -> RunningPostgres:
    """Start the server of that data directory, made on first use, or find it running.

    Blocks; in an event loop run it in a thread. `settings` add to or replace `SETTINGS`.

    Raises:
        PostgresError: with what initdb, pg_ctl or the server's log said.
    """
    binaries = binaries or embedded()
    data_directory = data_directory.resolve()
    data_directory.parent.mkdir(parents=True, exist_ok=True)
    binaries.let_in(data_directory)
    with _alone(data_directory, budget=budget):
        _initialise(binaries, data_directory, budget=budget)
        socket_directory = _socket_directory(binaries, data_directory)
        started = not _is_running(data_directory)
        if started:
            _forget_dead_server(data_directory, socket_directory)
            _write_settings(data_directory, socket_directory, {**SETTINGS, **(settings or {})})
            _launch(binaries, data_directory, budget=budget)
    return RunningPostgres(
        binaries=binaries, data_directory=data_directory, socket_directory=socket_directory, started=started
    )


def stop(data_directory: Path, *, budget: Budget) -> bool:
    """End the server of that data directory, whoever started it; tell whether there was one."""
    data_directory = data_directory.resolve()
    if not data_directory.exists() or not _is_running(data_directory):
        return False
    _stop(embedded(), data_directory, budget=budget)
    return True


@contextmanager
def _alone(data_directory: Path, *, budget: Budget) -> Iterator[None]:
    """Keep other launchers away from the data directory while we look at it and change it."""
    with data_directory.with_name(data_directory.name + ".lock").open("w") as lock:
        while not _locked(lock):
            if budget.remaining() <= 0:
                raise PostgresError(
                    f"another process has been starting the server of {data_directory} all along"
                )
            time.sleep(LOCK_POLL_INTERVAL)
        yield


def _locked(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _initialise(binaries: Binaries, data_directory: Path, *, budget: Budget) -> None:
    if data_directory.exists():
        _check_owner(binaries, data_directory)
        _check_version(binaries, data_directory)
        return
    log.info("creating a PostgreSQL %s database in %s", binaries.version, data_directory)
    unfinished = data_directory.with_name(data_directory.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    _make_private(binaries, unfinished)
    binaries.run(
        "initdb",
        f"--pgdata={unfinished}",
        f"--username={OWNER}",
        "--auth-local=trust",
        "--auth-host=reject",
        "--encoding=UTF8",
        "--locale=C",
        budget=budget,
    )
    with (unfinished / "postgresql.conf").open("a") as configuration:
        configuration.write("include 'hourglass.conf'\n")
    unfinished.rename(data_directory)


def _check_owner(binaries: Binaries, data_directory: Path) -> None:
    owner = data_directory.stat().st_uid
    runs_as = os.geteuid() if binaries.user_id is None else binaries.user_id
    if owner != runs_as:
        raise PostgresError(
            f"{data_directory} belongs to user id {owner}, but the server would run as {runs_as}: "
            "start it as its owner, or drop it with `make clean-data`"
        )


def _check_version(binaries: Binaries, data_directory: Path) -> None:
    version_file = data_directory / "PG_VERSION"
    if not version_file.exists():
        raise PostgresError(f"{data_directory} is not a PostgreSQL data directory; move it away")
    made_by = version_file.read_text().strip()
    if made_by != binaries.major:
        raise PostgresError(
            f"{data_directory} was made by PostgreSQL {made_by} and cannot be opened by {binaries.major}: "
            "dump it with the old version, or drop it with `make clean-data`"
        )


def _make_private(binaries: Binaries, directory: Path) -> None:
    directory.mkdir(mode=0o700)
    if binaries.user_id is not None and binaries.group_id is not None:
        os.chown(directory, binaries.user_id, binaries.group_id)


def _socket_directory(binaries: Binaries, data_directory: Path) -> Path:
    """The data directory, or a short private folder when the socket's path would be too long."""
    if len(os.fsencode(data_directory / f".s.PGSQL.{PORT}")) <= SOCKET_PATH_LIMIT:
        return data_directory
    name = hashlib.sha256(os.fsencode(data_directory)).hexdigest()[:12]
    directory = Path(tempfile.gettempdir()) / f"hourglass-{name}"
    if not directory.exists():
        _make_private(binaries, directory)
    status = directory.lstat()
    expected = os.geteuid() if binaries.user_id is None else binaries.user_id
    if directory.is_symlink() or status.st_uid != expected or status.st_mode & 0o077:
        raise PostgresError(f"{directory} is not a private folder of the server's user; remove it")
    return directory


def _is_running(data_directory: Path) -> bool:
    """Look for a live postmaster of this data directory; a recycled process id is not one."""
    try:
        process_id = int((data_directory / "postmaster.pid").read_text().split("\n", 1)[0])
        process = psutil.Process(process_id)
        return process.status() != psutil.STATUS_ZOMBIE and Path(process.cwd()) == data_directory
    except (FileNotFoundError, ValueError, psutil.NoSuchProcess, psutil.AccessDenied):
        return False


def _forget_dead_server(data_directory: Path, socket_directory: Path) -> None:
    """Remove what a killed server left: a process id that is somebody else's now would prevent the start."""
    left = [
        data_directory / "postmaster.pid",
        socket_directory / f".s.PGSQL.{PORT}.lock",
        socket_directory / f".s.PGSQL.{PORT}",
    ]
    if left[0].exists():
        log.warning("the PostgreSQL server of %s did not end cleanly; it will recover", data_directory)
    for path in left:
        path.unlink(missing_ok=True)


def _write_settings(data_directory: Path, socket_directory: Path, settings: Mapping[str, str]) -> None:
    settings = {**settings, "port": str(PORT), "unix_socket_directories": str(socket_directory)}
    lines = [f"{name} = '{_escaped(value)}'\n" for name, value in settings.items()]
    (data_directory / "hourglass.conf").write_text("".join(lines))


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "''")


def _launch(binaries: Binaries, data_directory: Path, *, budget: Budget) -> None:
    server_log = data_directory / "server.log"
    server_log.unlink(missing_ok=True)
    wait = max(1, int(budget.remaining()) - 1)
    try:
        binaries.run(
            "pg_ctl",
            "start",
            "--wait",
            f"--timeout={wait}",
            f"--pgdata={data_directory}",
            f"--log={server_log}",
            budget=budget,
        )
    except PostgresError as error:
        said = server_log.read_text().strip().splitlines()[-12:] if server_log.exists() else []
        raise PostgresError("\n".join(["PostgreSQL does not start", str(error), *said])) from error


def _stop(binaries: Binaries, data_directory: Path, *, budget: Budget) -> None:
    wait = max(1, int(budget.remaining()) - 1)
    binaries.run(
        "pg_ctl",
        "stop",
        "--wait",
        "--mode=fast",
        f"--timeout={wait}",
        f"--pgdata={data_directory}",
        budget=budget,
    )


def main(arguments: list[str]) -> int:
    """`python -m launcher.postgres start|stop`: the project's own server, by hand."""
    match arguments:
        case ["start"]:
            print(start(DATA_DIRECTORY, budget=Budget.for_work(START_LIMIT)).dsn)
        case ["stop"]:
            stop(DATA_DIRECTORY, budget=Budget.for_work(STOP_LIMIT))
        case _:
            print("usage: python -m launcher.postgres start|stop", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except PostgresError as error:
        sys.exit(str(error))
