"""The whole system under two minutes of every kind of fault, in a process of its own."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from launcher.processes import PROJECT
from tests.torture.__main__ import FOLDER, INTERRUPTED
from tests.torture.kinds import FULL_LENGTH, Kind
from tests.waiting import eventually

SMALLEST_FAMILY = 7
"""A provider, pricing, three workers, two job services, PostgreSQL: one of them is dead at the moment."""


@pytest.mark.faults
@pytest.mark.timeout(540)
@pytest.mark.flaky(reruns=0)
@pytest.mark.scenario("S3", "M2")
def test_no_job_is_lost_accepted_twice_or_charged_wrongly_whatever_is_done_to_the_system() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "tests.torture"],
        env={**os.environ, "TORTURE_SECONDS": str(FULL_LENGTH)},
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=520,
        check=False,
    )
    assert 0 == run.returncode, f"{run.stdout}\n{run.stderr}"


@pytest.mark.faults
@pytest.mark.timeout(120)
def test_an_interrupted_run_leaves_nothing_behind() -> None:
    seed = str(os.getpid())
    diary = FOLDER / seed / "diary.txt"
    run = subprocess.Popen(
        [sys.executable, "-m", "tests.torture"],
        env={**os.environ, "SEED": seed, "TORTURE_SECONDS": "60"},
        cwd=PROJECT,
        stdout=subprocess.DEVNULL,
    )
    try:
        asyncio.run(eventually(lambda: diary.exists() and Kind.KILL_WORKER in diary.read_text(), within=60.0))
        data = diary.read_text().splitlines()[0].split()[-1]
        family = psutil.Process(run.pid).children(recursive=True) + _servers(data)
        assert len(family) >= SMALLEST_FAMILY
        run.send_signal(signal.SIGINT)
        assert INTERRUPTED == run.wait(timeout=40)
    finally:
        run.kill()
    assert [] == [each for each in family if _lives(each)]
    assert not Path(data).exists()
    shutil.rmtree(FOLDER / seed)


def _servers(data: str) -> list[psutil.Process]:
    """PostgreSQL on that folder: nobody's child."""
    return [each for each in psutil.process_iter(["cmdline"]) if data in " ".join(each.info["cmdline"] or ())]


def _lives(process: psutil.Process) -> bool:
    """A process that has ended may wait for somebody to look at its exit code."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
