"""64 slow queries cancelled at once: when are their backends idle, and when is the pool whole again?"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import asyncpg

from bench.budget.disturbance import Quiet
from bench.budget.environment import Environment
from bench.budget.figures import Figure, middle, percentile
from budget.core import Budget
from budget.policy import Policy
from budget.postgres import Database

STORM: Final = 64
SINGLES: Final = 30
_SLOW: Final = "SELECT pg_sleep(60)"
_ACTIVE: Final = """
    SELECT pid FROM pg_stat_activity WHERE application_name = $1 AND state <> 'idle'
"""
_POLICY: Final = Policy(dependency="postgres", method="slow", limit=60.0)
_GIVEN_UP: Final = 5.0
_POLL: Final = 0.004

Query = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """Seconds after the cancels: each backend idle, and as many queries again as the pool is wide."""

    idle: list[float]
    whole: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """One side. `slow` runs until it is cancelled; `quick` needs a connection for a moment."""

    name: str
    slow: Query
    quick: Query


class Watcher:
    """Sees from outside which backends of a pool are busy."""

    def __init__(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        self._connection = connection

    async def until_busy(self, pool: Pool, count: int) -> None:
        """Waits until so many are."""
        await self._until(pool, lambda busy: len(busy) >= count)

    async def idle_times(self, pool: Pool) -> list[float]:
        """How long each of those that are busy now takes to become idle."""
        started = time.monotonic()
        left, times = await self._busy(pool), list[float]()
        while left and time.monotonic() - started < _GIVEN_UP:
            await asyncio.sleep(_POLL)
            still = left & await self._busy(pool)
            times += [time.monotonic() - started] * len(left - still)
            left = still
        return times + [_GIVEN_UP] * len(left)

    async def _until(self, pool: Pool, enough: Callable[[set[int]], bool]) -> None:
        end = time.monotonic() + _GIVEN_UP
        while not enough(await self._busy(pool)):
            if time.monotonic() > end:
                raise TimeoutError(f"the queries of {pool.name} did not start")
            await asyncio.sleep(_POLL)

    async def _busy(self, pool: Pool) -> set[int]:
        return {row["pid"] for row in await self._connection.fetch(_ACTIVE, pool.name)}


async def measure(environment: Environment) -> list[Figure]:
    """Storms and single cancels, ours beside a bare asyncpg pool."""
    async with _ours(environment.dsn) as ours, _bare(environment.dsn) as bare:
        connection = await asyncpg.connect(environment.dsn)
        try:
            return await _measure(environment.quiet, Watcher(connection), ours, bare)
        finally:
            await connection.close()


async def _measure(quiet: Quiet, watcher: Watcher, ours: Pool, bare: Pool) -> list[Figure]:
    async def storms() -> tuple[Recovery, Recovery]:
        return await _storm(watcher, ours, STORM), await _storm(watcher, bare, STORM)

    async def singles() -> tuple[list[float], list[float]]:
        return await _singles(watcher, ours), await _singles(watcher, bare)

    stormy, single = await quiet.rounds(storms), await quiet.rounds(singles)
    return [
        _figure(
            f"storm of {STORM} cancels: backends idle, p99",
            [percentile(mine.idle, 0.99) for mine, _ in stormy],
            [percentile(theirs.idle, 0.99) for _, theirs in stormy],
            250.0,
        ),
        _figure(
            f"storm of {STORM} cancels: pool whole",
            [mine.whole for mine, _ in stormy],
            [theirs.whole for _, theirs in stormy],
            1000.0,
        ),
        _figure(
            "a single cancel: backend idle, p99",
            [percentile(mine, 0.99) for mine, _ in single],
            [percentile(theirs, 0.99) for _, theirs in single],
            100.0,
        ),
    ]


def _figure(name: str, ours: list[float], bare: list[float], target: float) -> Figure:
    samples = [seconds * 1000 for seconds in ours]
    return Figure(
        name=name,
        unit="ms",
        ours=middle(samples),
        other=middle(bare) * 1000,
        other_name="bare pool",
        target=target,
        at_least=False,
        samples=samples,
    )


async def _storm(watcher: Watcher, pool: Pool, count: int) -> Recovery:
    tasks = [asyncio.ensure_future(pool.slow()) for _ in range(count)]
    await watcher.until_busy(pool, count)
    for task in tasks:
        task.cancel()
    cancelled = time.monotonic()
    idle, whole, _ = await asyncio.gather(
        watcher.idle_times(pool), _whole(pool, count, cancelled), _ended(tasks)
    )
    return Recovery(idle=idle, whole=whole)


async def _whole(pool: Pool, count: int, since: float) -> float:
    await asyncio.gather(*(pool.quick() for _ in range(count)))
    return time.monotonic() - since


async def _ended(tasks: "Sequence[asyncio.Future[object]]") -> None:
    await asyncio.wait(tasks, timeout=_GIVEN_UP)


async def _singles(watcher: Watcher, pool: Pool) -> list[float]:
    return [time_ for _ in range(SINGLES) for time_ in (await _storm(watcher, pool, 1)).idle]


@asynccontextmanager
async def _ours(dsn: str) -> AsyncIterator[Pool]:
    name = "bench storm budget"
    database = await Database.open(dsn, budget=Budget.for_work(20.0), size=STORM, application_name=name)

    def query(sql: str) -> Query:
        return lambda: database.fetchval(Budget.for_work(60.0), _POLICY, sql)

    try:
        yield Pool(name=name, slow=query(_SLOW), quick=query("SELECT 1"))
    finally:
        await database.close(Budget.for_work(5.0))


@asynccontextmanager
async def _bare(dsn: str) -> AsyncIterator[Pool]:
    name = "bench storm bare"
    async with asyncpg.create_pool(
        dsn, min_size=STORM, max_size=STORM, server_settings={"application_name": name}
    ) as pool:

        def query(sql: str) -> Query:
            return lambda: pool.fetchval(sql, timeout=60.0)

        yield Pool(name=name, slow=query(_SLOW), quick=query("SELECT 1"))
