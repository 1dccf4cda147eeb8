"""One child process of ours: started, waited for until it says that it is ready, ended in good order."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from budget.core import Budget
from launcher.errors import ProcessEnded, ProcessNotReady
from launcher.process_log import ProcessLog

PROJECT: Final = Path(__file__).resolve().parent.parent
LONGEST_LINE: Final = 1024 * 1024
KILL_LIMIT: Final = 5.0
REAP_LIMIT: Final = 0.5
"""How long a failed call waits to see whether the process behind it has died."""

Result = TypeVar("Result")
Ready = Callable[[str], str | None]
"""Finds in a line of output where the process serves; None in every other line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What to start: a Python module, and how to recognise its ready line."""

    name: str
    module: str
    ready: Ready
    arguments: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


class Child:
    """A running process. `address` is what its ready line said."""

    def __init__(self, command: Command, process: Process, log: ProcessLog) -> None:
        self.name = command.name
        self.address = ""
        self.log = log
        self._command = command
        self._process = process
        self._ready = asyncio.Event()
        self._reading = asyncio.create_task(self._read(), name=f"output of {command.name}")

    @classmethod
    async def start(cls, command: Command, *, logs: Path, budget: Budget) -> Self:
        """Start it and wait for its ready line.

        Raises:
            ProcessEnded: it ended before, with the end of its log.
            ProcessNotReady: it took longer than the budget; it is gone then.
        """
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-u", "-m", "launcher.tethered", str(os.getpid())),
            *(command.module, *command.arguments),
            env={**os.environ, **command.environment},
            cwd=PROJECT,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=STDOUT,
            limit=LONGEST_LINE,
            # A session of its own: Ctrl-C in the terminal is ours to hand on, once.
            start_new_session=True,
        )
        child = cls(command, process, ProcessLog(logs / f"{command.name}.log"))
        try:
            await child.unless_ended(child._until_ready(budget))
        except BaseException:
            await child.kill()
            raise
        return child

    @property
    def process_id(self) -> int:
        """The operating system's number for it."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.returncode is None

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal; nothing happens when it has ended."""
        if self.running:
            self._process.send_signal(number)

    async def ended(self) -> int:
        """Wait for its end; the exit code, negative for a signal."""
        await asyncio.shield(self._reading)
        return await self._process.wait()

    async def unless_ended(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of `work`, or ProcessEnded when this process ends first."""
        return await unless_ended([self], work)

    def ending(self, exit_code: int) -> ProcessEnded:
        """The error that says how it ended, with the end of its log."""
        return ProcessEnded(self.name, exit_code, self.log.tail)

    async def stop(self, *, budget: Budget) -> int:
        """SIGTERM, and SIGKILL when the budget is over; the exit code."""
        self.signal(signal.SIGTERM)
        try:
            if budget.spendable() > 0:
                async with asyncio.timeout(budget.spendable()):
                    return await self.ended()
        except TimeoutError:
            self.log.write(f"launcher: not ended {budget.initial:.1f} s after SIGTERM, killing it")
        return await self.kill()

    async def kill(self) -> int:
        """SIGKILL; the exit code."""
        self.signal(signal.SIGKILL)
        async with asyncio.timeout(KILL_LIMIT):
            return await self.ended()

    async def _until_ready(self, budget: Budget) -> None:
        try:
            async with asyncio.timeout(budget.spendable() or 1e-3):
                await self._ready.wait()
        except TimeoutError:
            raise ProcessNotReady(self.name, budget.initial, self.log.tail) from None

    async def _read(self) -> None:
        """Keep what it writes until it closes its output."""
        assert self._process.stdout is not None, "a pipe was asked for"
        while True:
            try:
                line = await self._process.stdout.readline()
            except ValueError:
                self.log.write(f"launcher: a line of more than {LONGEST_LINE} bytes was left out")
                continue
            if not line:
                break
            self._keep(line.decode(errors="replace").rstrip("\n"))
        self.log.close()

    def _keep(self, line: str) -> None:
        self.log.write(line)
        if not self.address:
            self.address = self._command.ready(line) or ""
            if self.address:
                self._ready.set()


async def unless_ended(children: Sequence[Child], work: Coroutine[Any, Any, Result]) -> Result:
    """The result of `work`; ProcessEnded as soon as one of the children ends before that.

    When `work` fails because a process behind it has died, that death is what is raised.
    """
    task = asyncio.create_task(work)
    watches = {asyncio.create_task(child.ended()): child for child in children}
    try:
        await asyncio.wait({task, *watches}, return_when=asyncio.FIRST_COMPLETED)
        if task.done() and task.exception() is not None and watches:
            await asyncio.wait(watches, timeout=REAP_LIMIT, return_when=asyncio.FIRST_COMPLETED)
        if task.done() and task.exception() is None:
            return task.result()
        for watch, child in watches.items():
            if watch.done():
                raise child.ending(watch.result()) from (task.exception() if task.done() else None)
        return await task
    finally:
        await _cancelled([task, *watches])


async def _cancelled(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def together(*work: Awaitable[object]) -> None:
    """Wait for all; the first failure cancels the rest and is raised by itself, not in a group."""
    try:
        async with asyncio.TaskGroup() as group:
            for one in work:
                group.create_task(_awaited(one))
    except BaseExceptionGroup as failures:
        raise _first(failures) from failures


async def _awaited(work: Awaitable[object]) -> None:
    await work


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
