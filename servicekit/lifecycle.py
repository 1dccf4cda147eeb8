"""The life of a process: background loops that somebody owns, and the one way to stop.

SIGTERM or SIGINT sets `stopping`; the process drains and ends with 0. A second signal ends it at once.
A loop that crashes, or ends before it was asked to, ends the process with an error.
"""

import asyncio
import gc
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final

import structlog

_COLLECTOR_THRESHOLDS: Final = (50_000, 20, 100)
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_log = structlog.stdlib.get_logger("hourglass.lifecycle")

Loop = Callable[[asyncio.Event], Coroutine[Any, Any, None]]
"""A background loop: runs until the event is set, then finishes what it has in hand and returns."""


class LoopEnded(Exception):
    """A background loop returned although nobody had asked it to stop."""


class Loops:
    """Named background tasks. Made by `background_loops`, which owns them."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        self._stop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, name: str, loop: Loop) -> None:
        """Runs a loop until the end of `background_loops`. Its crash cancels the body of that."""
        self._tasks.append(self._group.create_task(self._run(name, loop), name=name))

    async def _run(self, name: str, loop: Loop) -> None:
        await loop(self._stop)
        if not self._stop.is_set():
            raise LoopEnded(f"{name} ended although nobody had asked it to")

    async def stop(self, within: float) -> None:
        """Asks every loop to finish; cancels those that take longer than `within` seconds."""
        self._stop.set()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=within)
            for task in late:
                _log.warning("a background loop was cancelled", loop=task.get_name(), within=within)
                task.cancel()


@asynccontextmanager
async def background_loops(*, grace: float) -> AsyncIterator[Loops]:
    """Owns background loops for its body; afterwards they get `grace` seconds to finish.

    When a loop crashes, the body and the other loops are cancelled; the crash leaves in an exception group.
    """
    async with asyncio.TaskGroup() as group:
        loops = Loops(group)
        yield loops
        await loops.stop(grace)


async def every(seconds: float, action: Callable[[], Awaitable[None]], stop: asyncio.Event) -> None:
    """Runs an action, then again `seconds` after it ended, until `stop` is set."""
    while not stop.is_set():
        await action()
        await pause(seconds, stop)


async def pause(seconds: float, stop: asyncio.Event) -> None:
    """Waits `seconds` (above 0), or until `stop` is set."""
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        pass


async def pause_until(seconds: float, stop: asyncio.Event, sooner: asyncio.Event) -> None:
    """Waits `seconds` (above 0), or until one of the events is set."""
    async with asyncio.TaskGroup() as group:
        waits = [group.create_task(event.wait(), name="wait for an event") for event in (stop, sooner)]
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()


def run_process(main: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> int:
    """Runs `main` until it returns, and says how it went as an exit code: 0, or 1 after a crash.

    `main` gets the stop event. Usage: `sys.exit(run_process(main))`.
    """
    collect_rarely()
    try:
        asyncio.run(_with_signals(main))
    except Exception as error:  # noqa: BLE001 - the last resort; the exit code tells
        for cause in _leaves(error):
            _log.critical("the process ends with an error", error=type(cause).__name__, exc_info=cause)
        return 1
    return 0


def collect_rarely() -> None:
    """Has the garbage collector look at what was loaded so far never again, and at the rest seldom.

    A busy process keeps thousands of calls or runs alive, and by default Python walks through many of them
    after every 700 new objects: a quarter of a worker's time. What is in no cycle is freed at once anyway.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTOR_THRESHOLDS)


async def _with_signals(main: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, _stop, stopping, number)
    try:
        await main(stopping)
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


def _stop(stopping: asyncio.Event, number: signal.Signals) -> None:
    if stopping.is_set():
        # Nothing is flushed or closed on purpose: whoever signals twice wants it gone.
        sys.stderr.write(f"second {number.name}: leaving at once\n")
        sys.stderr.flush()
        os._exit(128 + number)
    _log.info("stopping", signal=number.name)
    stopping.set()


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for child in error.exceptions for leaf in _leaves(child)]
    return [error]
