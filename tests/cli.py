"""The command line as a process, as a shell would run it."""

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from launcher.processes import PROJECT


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it wrote, as one JSON value."""
        return json.loads(self.out)

    @property
    def json_lines(self) -> Sequence[Any]:
        """What it wrote, as one JSON value a line."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def rows(self) -> Sequence[Sequence[str]]:
        """The words of each line."""
        return [line.split() for line in self.out.splitlines()]


@dataclass(frozen=True, slots=True)
class Jobsctl:
    """`jobsctl` against one server. Nobody sits at a terminal."""

    server: str

    async def __call__(self, *arguments: str, stdin: str = "", **variables: str) -> Ran:
        """Run one command to its end."""
        process = await self.start(*arguments, **variables)
        out, err = await process.communicate(stdin.encode())
        assert process.returncode is not None
        assert "Traceback" not in err.decode()
        return Ran(code=process.returncode, out=out.decode(), err=err.decode())

    async def start(self, *arguments: str, **variables: str) -> asyncio.subprocess.Process:
        """Start one command."""
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "jobsctl", *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=_environment({"JOBSCTL_SERVER": self.server, **variables}),
            cwd=PROJECT,
        )


def _environment(variables: Mapping[str, str]) -> Mapping[str, str]:
    """What the shell of a test run has set does not count."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JOBSCTL_")}
    kept.pop("DATABASE_URL", None)
    return {**kept, "PYTHONWARNINGS": "error", "PYTHONIOENCODING": "utf-8", **variables}
