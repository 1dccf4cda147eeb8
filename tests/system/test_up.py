"""`make up`: the stack by one command, and the lines that it prints, typed into a real shell."""

import asyncio
import json
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from budget.ledger import parse_text
from launcher.buf_lines import buf_lines
from launcher.grpcurl import Line, grpcurl_lines
from launcher.jobsctl_lines import jobsctl_lines
from launcher.processes import PROJECT
from tests.postgres import TestDatabase
from tests.waiting import eventually

pytestmark = pytest.mark.timeout(120)
GRPCURL = ".venv/bin/grpcurl"
BUF = ".venv/bin/buf"
JOBSCTL = ".venv/bin/jobsctl"
FREE = "127.0.0.1:0"


class Up:
    """A running `make up` and what it has printed so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.printed = ""

    async def read(self) -> None:
        assert self.process.stdout is not None
        while data := await self.process.stdout.readline():
            self.printed += data.decode()

    @property
    def commands(self) -> list[str]:
        found = re.findall(r"^# .*\n(.+)$", self.printed, flags=re.MULTILINE)
        return [str(command) for command in found]


@asynccontextmanager
async def up(**variables: str) -> AsyncIterator[Up]:
    free = {f"HOURGLASS_{name}_LISTEN": FREE for name in ("JOBS", "PRICING", "WORKER")}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "launcher.up"),
        env={**os.environ, **free, **variables},
        cwd=PROJECT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    running = Up(process)
    reading = asyncio.create_task(running.read())
    try:
        yield running
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
        await process.wait()
        await reading


async def shell(*commands: str) -> str:
    """What these lines print when they are pasted into one shell."""
    script = "\n".join(["set -eu -o pipefail", *commands])
    process = await asyncio.create_subprocess_exec(
        *("bash", "-c", script),
        cwd=PROJECT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    return output.decode()


async def test_the_stack_starts_by_one_command_and_its_lines_can_be_pasted(database: TestDatabase) -> None:
    async with up(DATABASE_URL=database.owner) as running:
        await eventually(lambda: "Ctrl-C" in running.printed or running.process.returncode, within=60.0)
        assert "Ctrl-C" in running.printed, running.printed
        listed, described, quoted, created, again, watched, read, generated, *tools = running.commands

        assert "hourglass.jobs.v1.JobService" in await shell(listed)
        assert "rpc CreateJob ( .hourglass.jobs.v1.CreateJobRequest )" in await shell(described)
        assert {"QUOTE_LINE_STATUS_OK"} == {
            line["status"] for line in json.loads(await shell(quoted))["lines"]
        }
        trailers = await shell(created)
        assert re.search(r"^budget-ledger: .*pricing/GetPrice .* ok", trailers, flags=re.MULTILINE), trailers
        assert "budget-ledger-bin: " in trailers
        events = await shell(again, watched)
        assert '"terminal": true' in events
        job = json.loads(await shell(again, read))["job"]
        short = await shell(generated)
        assert '"finishReason": "FINISH_REASON_LENGTH"' in short.replace("finish_reason", "finishReason")
        assert re.search(r"^budget-ledger: .*worker/Generate .* ok", short, flags=re.MULTILINE), short
        methods, job_by_buf, events_by_buf, explained, verified = tools
        assert "hourglass.jobs.v1.JobService/CreateJob" in (await shell(methods)).splitlines()
        by_buf = await shell(again, job_by_buf)
        assert '"state": "JOB_STATE_SUCCEEDED"' in by_buf
        assert "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo" in by_buf
        assert re.search(r"Budget-Ledger: .*postgres/read_job .* ok", by_buf), by_buf
        assert '"terminal": true' in await shell(again, events_by_buf)
        assert "nothing: SUCCEEDED is its end" in await shell(again, explained)
        assert "FUNDS_BALANCE" in await shell(verified)
    assert job["state"] == "JOB_STATE_SUCCEEDED"
    assert job["result"]["provider_model"] == "smollm2-135m"
    assert running.process.returncode == 0
    assert running.printed.endswith("everything that was started has ended\n")


async def test_a_taken_port_is_an_error_that_says_so_and_nothing_stays() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        async with up(HOURGLASS_JOBS_LISTEN=address) as running:
            await running.process.wait()
    assert running.process.returncode == 1
    assert running.printed.startswith(
        f"HOURGLASS_JOBS_LISTEN: cannot listen on {address}: Address already in use\n"
    )


async def test_wrong_settings_are_told_in_a_line() -> None:
    async with up(HOURGLASS_JOBS_LISTEN="nonsense") as running:
        await running.process.wait()
    assert running.process.returncode == 1
    assert "cannot listen on nonsense" in running.printed
    assert "Traceback" not in running.printed


def test_the_readme_shows_the_very_lines_that_are_printed() -> None:
    readme = (PROJECT / "README.md").read_text()
    lines: list[Line] = list(grpcurl_lines(GRPCURL, "127.0.0.1:50051", key="first-1"))
    lines += buf_lines(BUF, "127.0.0.1:50051")
    lines += jobsctl_lines(JOBSCTL, "127.0.0.1:50051")
    assert [] == [line.command for line in lines if line.command not in readme]
    assert Path(PROJECT / GRPCURL).exists()
    assert Path(PROJECT / JOBSCTL).exists()
    ledgers = re.findall("^budget-ledger: (.*)$", readme, flags=re.MULTILINE)
    assert [
        ["postgres", "pricing", "postgres"],
        ["pricing", "worker", "postgres", "worker", "postgres"],
        ["postgres", "pricing"],
        ["worker", "pricing", "pricing", "postgres"],
    ] == [[spend.dependency for spend in parse_text(ledger).spends] for ledger in ledgers]
