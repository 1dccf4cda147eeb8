"""The whole system under two minutes of every kind of fault, in a process of its own."""

import os
import subprocess
import sys

import pytest

from launcher.processes import PROJECT
from tests.torture.kinds import FULL_LENGTH


@pytest.mark.faults
@pytest.mark.timeout(420)
@pytest.mark.flaky(reruns=0)
@pytest.mark.scenario("S3", "M2")
def test_no_job_is_lost_accepted_twice_or_charged_wrongly_whatever_is_done_to_the_system() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "tests.torture"],
        env={**os.environ, "TORTURE_SECONDS": str(FULL_LENGTH)},
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert 0 == run.returncode, f"{run.stdout}\n{run.stderr}"
