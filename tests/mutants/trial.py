"""Runs tests against a copy of the checkout, with and without a mutant in it."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.mutants.mutant import MalformedMutant, Mutant

RUN_LIMIT: Final = 120.0
"""Seconds for one mutant's tests."""
TEST_LIMIT: Final = 20
"""Seconds for one test; a test that a mutant hangs has failed."""
_NOT_COPIED: Final = (
    ".git",
    ".venv",
    ".*_cache",
    ".hypothesis",
    ".hourglass",
    "__pycache__",
    "build",
    "dist",
    "*.db",
)


class Verdict(StrEnum):
    """What became of a mutant."""

    KILLED = "killed"
    SURVIVED = "SURVIVED"
    BROKEN = "BROKEN"
    """Its tests could not even run: it proves nothing."""
    HUNG = "HUNG"
    """Its tests did not end in time: it proves nothing."""
    STALE = "STALE"
    """Its patch no longer applies."""


_EXIT_CODES: Final = {0: Verdict.SURVIVED, 1: Verdict.KILLED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of pytest: its exit code (None: stopped by us), output, and seconds."""

    code: int | None
    output: str
    took: float

    @property
    def verdict(self) -> Verdict:
        if self.code is None:
            return Verdict.HUNG
        return _EXIT_CODES.get(self.code, Verdict.BROKEN)


@contextmanager
def copied(checkout: Path) -> Iterator[Path]:
    """A copy of the checkout for the length of a block: the working tree itself is never patched."""
    with TemporaryDirectory(prefix="hourglass-mutants-") as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(checkout, tree, ignore=shutil.ignore_patterns(*_NOT_COPIED))
        yield tree


def run_tests(tree: Path, tests: Sequence[str], *, limit: float = RUN_LIMIT, reruns: int = 0) -> Run:
    """Runs exactly these tests in a tree, up to the first that fails, in a process group of their own."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        f"--reruns={reruns}",
        "-p",
        "no:cacheprovider",
        "--tb=line",
    ]
    started = time.monotonic()
    process = subprocess.Popen(
        [*command, f"--timeout={TEST_LIMIT}", *tests],
        cwd=tree,
        env=_environment(tree),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        return Run(code=None, output=output, took=time.monotonic() - started)
    return Run(code=process.returncode, output=output, took=time.monotonic() - started)


def try_mutant(tree: Path, mutant: Mutant) -> Run | MalformedMutant:
    """Runs the mutant's tests with the mutant in the tree, and takes it out again."""
    file = tree / mutant.file
    healthy = file.read_text()
    try:
        patched = mutant.patched(healthy)
    except MalformedMutant as error:
        return error
    file.write_text(patched)
    try:
        return run_tests(tree, mutant.tests)
    finally:
        file.write_text(healthy)


def _environment(tree: Path) -> dict[str, str]:
    # No compiled files: Python takes one of the same second and size for current. One server is enough.
    return os.environ | {
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": str(tree),
        "HOURGLASS_TEST_POSTGRES": "embedded",
    }
