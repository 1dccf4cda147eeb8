"""The command line at a terminal: it asks before it does much, and draws over one line while a job runs."""

import asyncio
import os
import pty
import re
import signal
import sys
from dataclasses import dataclass

import pytest

from hourglass.jobs.v1.jobs_service_pb2 import GetJobRequest
from launcher.processes import PROJECT
from tests.integration.jobsctl.test_jobs_commands import failed_job
from tests.integration.launcher.scripted_jobs import ScriptedJobs, scripted_events, serving
from tests.jobs import TENANT, Jobs, of
from tests.unit.jobsctl.stories import JOB_ID
from tests.waiting import eventually

pytestmark = pytest.mark.faults


@dataclass(slots=True)
class Terminal:
    """A command that somebody sits in front of."""

    process: asyncio.subprocess.Process
    descriptor: int
    seen: str = ""

    async def until(self, wanted: str) -> None:
        """Read on until these words were shown."""
        await eventually(lambda: self._reads(wanted), within=20.0)

    def type(self, text: str) -> None:
        os.write(self.descriptor, text.encode())

    async def end(self) -> int:
        """Its exit code."""
        code = await self.process.wait()
        self._reads("")
        os.close(self.descriptor)
        return code

    def _reads(self, wanted: str) -> bool:
        try:
            while True:
                self.seen += os.read(self.descriptor, 65536).decode()
        except OSError:  # nothing more for now, or the other end is closed
            return wanted in self.seen


async def at_terminal(server: str, *arguments: str) -> Terminal:
    here, there = pty.openpty()
    os.set_blocking(here, False)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "jobsctl", "--server", server, *arguments),
        stdin=there,
        stdout=there,
        stderr=there,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "200"},
        cwd=PROJECT,
    )
    os.close(there)
    return Terminal(process, here)


async def asked(jobs: Jobs, made: str) -> Terminal:
    """Somebody who is asked whether to go on."""
    line = ("bulk", "retry", "--of-tenant", TENANT, "--reason", "a test")
    terminal = await at_terminal(jobs.address, *line)
    await terminal.until("Retry 1 job? [y/N]")
    assert made in terminal.seen
    return terminal


async def cause(jobs: Jobs, made: str) -> str:
    request = GetJobRequest(job_id=made)
    return str((await jobs.jobs.GetJob(request, metadata=of(TENANT))).job.state_cause)


async def test_many_jobs_are_shown_and_asked_about_first(jobs: Jobs) -> None:
    made = await failed_job(jobs)
    unwilling = await asked(jobs, made)
    unwilling.type("n\n")
    interrupted = await asked(jobs, made)
    interrupted.process.send_signal(signal.SIGINT)
    assert (0, 130) == (await unwilling.end(), await interrupted.end())
    assert "RETRIED" != await cause(jobs, made)

    willing = await asked(jobs, made)
    willing.type("y\n")
    assert 0 == await willing.end()
    assert "retry: 1 job" in willing.seen
    assert "RETRIED" == await cause(jobs, made)


async def test_whoever_waits_sees_for_what_and_may_leave(jobs: Jobs) -> None:
    made = (await jobs.create("waits")).job.job_id
    terminal = await at_terminal(jobs.address, "jobs", "wait", made)
    await terminal.until(f"job {made}")
    terminal.process.send_signal(signal.SIGINT)
    assert 130 == await terminal.end()
    assert "Traceback" not in terminal.seen


async def test_a_watched_job_has_one_line_that_is_drawn_over() -> None:
    async with serving(ScriptedJobs(scripted_events("The ", "sky ", "is ", "blue."))) as address:
        terminal = await at_terminal(address, "jobs", "watch", JOB_ID)
        assert 0 == await terminal.end()
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", terminal.seen)
    assert "SUCCEEDED" in shown
    assert "claimed         by w" in shown
    assert '"sky "' not in shown
