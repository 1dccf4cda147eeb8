"""What all figures need: Postgres, the pricing double, callers, and the sides of the service."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import asyncpg

from bench.budget.children import Child, child
from bench.budget.disturbance import Quiet
from bench.budget.limits import CALLER_BUDGET
from launcher.postgres_binaries import embedded
from tests.postgres import server

_TABLE: Final = """
    CREATE TABLE bench_quotes (
        id bigserial PRIMARY KEY, model text NOT NULL, price_version text NOT NULL,
        create_time timestamptz NOT NULL DEFAULT now()
    )
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side of the comparison, running."""

    process: Child

    @property
    def target(self) -> str:
        """Where it listens."""
        return str(self.process.ready["target"])

    async def processor_seconds(self) -> float:
        """What it has used so far."""
        return float((await self.process.ask("usage"))["cpu"])


class Environment:
    """Starts what a figure asks for, once."""

    def __init__(self, stack: AsyncExitStack, dsn: str, quiet: Quiet, logs: Path) -> None:
        self.dsn = dsn
        self.quiet = quiet
        self.logs = logs
        self._stack = stack
        self._sides: dict[str, Side] = {}
        self.pricing: Child
        self.callers: Child

    @classmethod
    @asynccontextmanager
    async def running(cls, dsn: str, quiet: Quiet, logs: Path) -> AsyncIterator["Environment"]:
        """Postgres is there; the double and the callers come up."""
        async with AsyncExitStack() as stack:
            environment = cls(stack, dsn, quiet, logs)
            await environment.prepare()
            environment.pricing = await stack.enter_async_context(
                child("bench.budget.pricing_double", logs=logs)
            )
            environment.callers = await stack.enter_async_context(child("bench.budget.load", logs=logs))
            yield environment

    async def prepare(self) -> None:
        """The table of the INSERT."""
        connection = await asyncpg.connect(self.dsn)
        try:
            await connection.execute(_TABLE)
        finally:
            await connection.close()

    async def side(self, name: str, *arguments: str) -> Side:
        """A side by its name, see `bench.budget.front`."""
        if name not in self._sides:
            given = ("--pricing", str(self.pricing.ready["target"]), "--dsn", self.dsn, *arguments)
            process = await self._stack.enter_async_context(
                child("bench.budget.front", name, *given, logs=self.logs)
            )
            self._sides[name] = Side(process=process)
        return self._sides[name]

    async def load(self, side: Side, pattern: str, *, within: float = 60.0, **arguments: Any) -> "Answers":
        """Runs one pattern of calls against a side, see `bench.budget.load`."""
        arguments = {"timeout": CALLER_BUDGET, **arguments}
        answer = await self.callers.ask(pattern, within=within, target=side.target, **arguments)
        return Answers(seconds=answer["seconds"], calls=[Answered(*record) for record in answer["records"]])

    @asynccontextmanager
    async def locked_table(self) -> AsyncIterator[None]:
        """While it lasts, no INSERT gets through."""
        connection = await asyncpg.connect(self.dsn)
        try:
            async with connection.transaction():
                await connection.execute("LOCK TABLE bench_quotes IN ACCESS EXCLUSIVE MODE")
                yield
        finally:
            await connection.close()


@dataclass(frozen=True, slots=True)
class Answered:
    """One call as its caller saw it. `reason` is ErrorInfo's; see `bench.budget.load.Record`."""

    model: str
    took: float
    code: str
    reason: str
    went_well: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """All calls of a pattern."""

    seconds: float
    calls: list[Answered]

    def of(self, model: str) -> "Answers":
        """Those that asked for one model."""
        return Answers(seconds=self.seconds, calls=[call for call in self.calls if call.model == model])

    @property
    def good(self) -> list[float]:
        """How long the OK ones took."""
        return [call.took for call in self.calls if call.code == "OK"]

    @property
    def failed(self) -> list[Answered]:
        """The others."""
        return [call for call in self.calls if call.code != "OK"]

    @property
    def good_rate(self) -> float:
        """OK answers a second."""
        return len(self.good) / self.seconds


@contextmanager
def postgres() -> Iterator[tuple[str, int]]:
    """The DSN and the process id of a server of this run's own.

    Its data lies in memory: a commit's disk time would hide differences of processor time, and drifts.
    """
    with server(embedded()) as running:
        process = (running.running.data_directory / "postmaster.pid").read_text().split("\n", 1)[0]
        yield running.running.dsn, int(process)


@contextmanager
def log_folder() -> Iterator[Path]:
    """Where the children write."""
    with tempfile.TemporaryDirectory(prefix="hourglass-bench-") as folder:
        yield Path(folder)


def run(work: Any) -> Any:
    """Runs `work(environment)` with everything up, and everything down afterwards."""

    async def inside(dsn: str, quiet: Quiet, logs: Path) -> Any:
        async with Environment.running(dsn, quiet, logs) as environment:
            return await work(environment)

    with postgres() as (dsn, process), log_folder() as logs:
        return asyncio.run(inside(dsn, Quiet(process), logs))
