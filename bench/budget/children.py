"""Child processes that are asked for things in JSON lines: one line in, one line out, the end of input ends
them. So a child never outlives its parent, however that ends.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

READY_LIMIT: Final = 30.0
STOP_LIMIT: Final = 5.0
LONGEST_LINE: Final = 64 * 1024 * 1024

Answer = Callable[[Mapping[str, Any]], Awaitable[Any]]


class ChildFailed(Exception):
    """A child process ended, or did not answer in time; the text ends with what it last wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """A running child process."""

    name: str
    process: asyncio.subprocess.Process
    log: Path
    ready: Mapping[str, Any]
    """What it said when it was up."""

    async def ask(self, command: str, *, within: float = 30.0, **arguments: Any) -> Any:
        """The child's answer to one command. ChildFailed when there is none within so many seconds."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"command": command, **arguments}).encode() + b"\n")
        return await _read_line(self.name, self.process, self.log, within)


@asynccontextmanager
async def child(module: str, *arguments: str, logs: Path) -> AsyncIterator[Child]:
    """`python -m module arguments`, up and answering; ended by its process id when the block ends."""
    name = " ".join((module.rpartition(".")[2], *arguments[:1]))
    log = logs / f"{name.replace(' ', '-')}.log"
    with log.open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            module,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            limit=LONGEST_LINE,
        )
    try:
        ready = await _read_line(name, process, log, READY_LIMIT)
        yield Child(name=name, process=process, log=log, ready=ready)
    finally:
        await _stop(process)


async def _read_line(name: str, process: asyncio.subprocess.Process, log: Path, within: float) -> Any:
    assert process.stdout is not None
    line = b""
    with suppress(TimeoutError):
        async with asyncio.timeout(within):
            line = await process.stdout.readline()
    if not line:
        said = await asyncio.to_thread(log.read_text, errors="replace")
        raise ChildFailed(f"{name} (process {process.pid}) did not answer within {within} s:\n{said[-2000:]}")
    return json.loads(line)


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        async with asyncio.timeout(STOP_LIMIT):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


async def answer_parent(ready: Mapping[str, Any], commands: Mapping[str, Answer]) -> None:
    """The child's side: says that it is ready, then answers commands one by one until its input ends."""
    reader = asyncio.StreamReader(limit=LONGEST_LINE)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    _say({"pid": os.getpid(), **ready})
    while line := await reader.readline():
        asked = json.loads(line)
        _say(await commands[asked["command"]](asked))


def _say(answer: Any) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
