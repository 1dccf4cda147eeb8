"""Rounds that nobody else disturbed: what others on the machine use is metered, the quietest rounds count.

A shared machine is not quiet on request. Each round is run together with all sides that it compares, so a
disturbed one falls away as a whole, and by what others used, never by how it came out.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import psutil

Result = TypeVar("Result")

QUIET: Final = 0.15
"""Processors that others may use, on average, in a round that counts as undisturbed."""
ROUNDS: Final = 5
MOST_ROUNDS: Final = 8
_STEP: Final = 0.002


@dataclass(frozen=True, slots=True)
class Round(Generic[Result]):
    """One round, and how many processors others used meanwhile."""

    result: Result
    others: float


class Quiet:
    """Runs rounds; `roots` are the processes beside this one whose trees are ours."""

    def __init__(self, *roots: int) -> None:
        self._roots = roots
        self.others: list[float] = []
        """What others used in every round that was kept."""
        self.lags: list[float] = []
        """How late this process, which has nothing to do meanwhile, was woken at the latest, by round."""

    async def rounds(
        self, work: Callable[[], Awaitable[Result]], *, most: int = MOST_ROUNDS
    ) -> Sequence[Result]:
        """The ROUNDS quietest of at most `most` rounds, in their order."""
        done: list[Round[Result]] = []
        while len(done) < most and sum(one.others < QUIET for one in done) < ROUNDS:
            done.append(await self._round(work))
        kept = sorted(done, key=lambda one: one.others)[:ROUNDS]
        self.others.extend(one.others for one in kept)
        return [one.result for one in done if one in kept]

    def processor_seconds(self) -> float:
        """What all of our processes have used so far; those that have ended count no more."""
        return sum(map(_seconds, self._ours()))

    async def _round(self, work: Callable[[], Awaitable[Result]]) -> Round[Result]:
        busy, total, ours = self._used()
        result = await self._watching_the_clock(work)
        busy_now, total_now, ours_now = self._used()
        foreign = max(0.0, busy_now - busy - (ours_now - ours))
        return Round(result, foreign / max(total_now - total, 0.01) * (psutil.cpu_count() or 1))

    async def _watching_the_clock(self, work: Callable[[], Awaitable[Result]]) -> Result:
        latest = 0.0

        async def watch() -> None:
            nonlocal latest
            while True:
                due = time.monotonic() + _STEP
                await asyncio.sleep(_STEP)
                latest = max(latest, time.monotonic() - due)

        watching = asyncio.create_task(watch())
        try:
            return await work()
        finally:
            watching.cancel()
            self.lags.append(latest)

    def _used(self) -> tuple[float, float, float]:
        """Seconds: of all processors in use, of all processors in all, and of ours in use."""
        times = psutil.cpu_times()
        total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
        idle = times.idle + getattr(times, "iowait", 0.0)
        return total - idle, total, self.processor_seconds()

    def _ours(self) -> set[psutil.Process]:
        found = set()
        for root in (psutil.Process(), *map(psutil.Process, self._roots)):
            with suppress(psutil.NoSuchProcess):
                found |= {root, *root.children(recursive=True)}
        return found


def _seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)
