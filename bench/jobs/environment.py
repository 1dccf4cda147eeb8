"""A PostgreSQL server of the bench's own, its data on disk, its durability the default; and drains on it."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import asyncpg
import psutil

from bench.budget.children import Child, child
from bench.jobs.statements import statement
from budget.core import Budget
from jobs_store.rate_card import RateCard, RateTier
from launcher.postgres import RunningPostgres, start
from launcher.postgres_binaries import embedded
from launcher.roles import REQUEST, WORKER, role_dsn
from migrations.runner import migrate
from tests.model_server import model_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from bench.budget.disturbance import Quiet

FOLDER: Final = Path(".hourglass/bench")
SETTINGS: Final = {
    # fsync, synchronous_commit and full_page_writes stay on, as they are by default.
    "shared_buffers": "512MB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "30min",
    "shared_preload_libraries": "pg_stat_statements",
    "log_min_messages": "warning",
}
START_LIMIT: Final = 60.0
FILL_LIMIT: Final = 120.0
DRAIN_LIMIT: Final = 60.0
LOG_TAIL: Final = 4000
POLL: Final = 0.02
SETTLE: Final = 1.2
"""Seconds until backends have told what they counted."""
SLOTS: Final = 1000
CARD: Final = RateCard(
    model="fast",
    price_version="1",
    tiers=(RateTier(above_input_tokens=0, input=Decimal(10), cached_input=Decimal(5), output=Decimal(40)),),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """One drain: jobs a second, and what one job took. Processor time in microseconds."""

    rate: float
    worker_cpu: float
    postgres_cpu: float
    statements: float = 0.0
    commits: float = 0.0
    wal_bytes: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """What a drain is measured by, at one instant."""

    workers: float
    postgres: float
    statements: int
    commits: int
    wal_bytes: int


class Place:
    """One database of the server, with its tenants, and workers for it."""

    def __init__(
        self, environment: Environment, name: str, owner: asyncpg.Connection[asyncpg.Record]
    ) -> None:
        self.dsn = environment.running.database_dsn(name)
        self.owner = owner
        self.environment = environment
        self._workers: dict[str, Child] = {}

    @property
    def worker_dsn(self) -> str:
        """As workers connect."""
        return role_dsn(self.dsn, WORKER)

    @property
    def request_dsn(self) -> str:
        """As the request path connects."""
        return role_dsn(self.dsn, REQUEST)

    async def worker(self, name: str, *, model: str, provider: str = "", slots: int = SLOTS) -> Child:
        """A worker process by its name, started at first use."""
        if name not in self._workers:
            given = (
                "--dsn",
                self.worker_dsn,
                "--model",
                model,
                "--slots",
                str(slots),
                "--provider",
                provider,
            )
            self._workers[name] = await self.environment.child("bench.jobs.worker", name, *given)
        return self._workers[name]

    async def fill(self, jobs: int, *, lane: str, empty: bool = True) -> None:
        """That many jobs wait in a closed lane; nothing else is there if `empty`."""
        await self.owner.execute(statement("empty_tables" if empty else "forget_unfinished"))
        await self.owner.execute("CHECKPOINT")
        model, card = lane.partition("/")[2], json.dumps(CARD.to_json())
        await self.owner.fetch(statement("fill_jobs"), jobs, lane, model, card, timeout=FILL_LIMIT)
        for table in ("jobs", "reservations", "job_facts", "job_payloads"):
            await self.owner.execute(f"VACUUM (ANALYZE) hourglass.{table}")

    async def drain(self, workers: Sequence[Child], jobs: int, *, lane: str, empty: bool = True) -> Drained:
        """How fast these workers end all of them, from the moment at which the lane opens."""
        await self.fill(jobs, lane=lane, empty=empty)
        before, begun = await self._counters(workers), time.monotonic()
        await self.owner.execute(statement("open_lanes"))
        await self.owner.execute(statement("wake_workers"), lane)
        polls = await self.until_done()
        seconds = time.monotonic() - begun
        await asyncio.sleep(SETTLE)
        after = await self._counters(workers)
        return Drained(
            rate=jobs / seconds,
            worker_cpu=(after.workers - before.workers) / jobs * 1e6,
            postgres_cpu=(after.postgres - before.postgres) / jobs * 1e6,
            statements=(after.statements - before.statements) / jobs,
            commits=(after.commits - before.commits - polls) / jobs,
            wal_bytes=(after.wal_bytes - before.wal_bytes) / jobs,
        )

    async def until_done(self) -> int:
        """Waits until no job is left; answers how many statements of ours it took."""
        polls = 2  # the lane's opening and the wake-up
        async with asyncio.timeout(DRAIN_LIMIT):
            while await self.owner.fetchval(statement("count_unfinished")):
                polls += 1
                await asyncio.sleep(POLL)
        return polls + 1

    async def _counters(self, workers: Sequence[Child]) -> Counters:
        used = [float((await worker.ask("usage"))["cpu"]) for worker in workers]
        row = await self.owner.fetchrow(statement("read_counters"))
        assert row is not None
        return Counters(workers=sum(used), postgres=self.environment.postgres_seconds(), **dict(row))


class Environment:
    """The server, and the processes of the bench."""

    def __init__(self, stack: AsyncExitStack, running: RunningPostgres, quiet: Quiet, logs: Path) -> None:
        self.running = running
        self.quiet = quiet
        self.logs = logs
        self._stack = stack
        self._places: dict[str, Place] = {}
        self._sync = stack.enter_context(ExitStack())

    async def place(self, name: str) -> Place:
        """A migrated database with a hundred tenants, made at first use."""
        if name not in self._places:
            await self._administer(f'CREATE DATABASE "{name}"')
            dsn = self.running.database_dsn(name)
            await migrate(dsn, budget=Budget.for_work(START_LIMIT))
            owner = await asyncpg.connect(dsn, command_timeout=FILL_LIMIT)
            self._stack.push_async_callback(owner.close)
            await owner.execute("CREATE EXTENSION pg_stat_statements")
            await owner.execute(statement("fill_tenants"))
            self._places[name] = Place(self, name, owner)
        return self._places[name]

    async def child(self, module: str, *arguments: str) -> Child:
        """A process that lives as long as the environment."""
        return await self._stack.enter_async_context(child(module, *arguments, logs=self.logs))

    async def model_server(self) -> str:
        """The URL of a simulated model server, a process of its own."""
        return await asyncio.to_thread(self._sync.enter_context, model_server("model_servers.simulated"))

    def say(self, line: str) -> None:
        """Tells whoever waits how far it is."""
        print(line, file=sys.stderr, flush=True)

    def postgres_seconds(self) -> float:
        """Processor time of the whole server so far."""
        found = psutil.Process(process_of(self.running))
        return sum(map(_seconds, (found, *found.children(recursive=True))))

    async def _administer(self, sql: str) -> None:
        connection = await asyncpg.connect(self.running.dsn)
        try:
            await connection.execute(sql)
        finally:
            await connection.close()


@contextmanager
def postgres() -> Iterator[RunningPostgres]:
    """A server in a folder of its own inside the checkout, on its disk; all of it is gone at the end."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="postgres-", dir=FOLDER, ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o711)
        data, budget = Path(folder) / "data", Budget.for_work(START_LIMIT)
        running = start(data, budget=budget, binaries=embedded(), settings=SETTINGS)
        try:
            yield running
        except BaseException:
            said = (running.data_directory / "server.log").read_text(errors="replace")
            print(f"PostgreSQL said:\n{said[-LOG_TAIL:]}", file=sys.stderr)
            raise
        finally:
            running.stop(budget=Budget.for_work(START_LIMIT))


@asynccontextmanager
async def environment(running: RunningPostgres, quiet: Quiet) -> AsyncIterator[Environment]:
    """Everything that a bench asks for is up during the block."""
    with tempfile.TemporaryDirectory(prefix="hourglass-bench-") as logs:
        async with AsyncExitStack() as stack:
            yield Environment(stack, running, quiet, Path(logs))


def process_of(running: RunningPostgres) -> int:
    """The process id of the server."""
    return int((running.data_directory / "postmaster.pid").read_text().split("\n", 1)[0])


def _seconds(process: psutil.Process) -> float:
    with suppress(psutil.NoSuchProcess):
        times: Any = process.cpu_times()
        return float(times.user + times.system)
    return 0.0
