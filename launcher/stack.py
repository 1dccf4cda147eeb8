"""The whole service on one machine: Postgres, model servers, PricingService, workers, JobService."""

from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from budget.core import Budget
from launcher import components, database
from launcher.components import MODEL_SERVERS
from launcher.database import Database
from launcher.errors import ProcessEnded
from launcher.processes import PROJECT, Child, Command, together, unless_ended
from launcher.readiness import until_ready
from launcher.roles import READONLY, REQUEST, WORKER
from launcher.seed import DEMO_TENANT, seed_tenant

LOGS: Final = PROJECT / ".hourglass" / "logs"
START_LIMIT: Final = 120.0
STOP_LIMIT: Final = 20.0
PRICING: Final = "pricing"
JOBS: Final = "jobs"

Result = TypeVar("Result")
Tell = Callable[[str, str], None]
"""Is told what has started: its name, and where or what it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What runs, and how it is set. `jobs`, `pricing`, `worker`: settings by name, without their prefix."""

    models: Sequence[str] = MODEL_SERVERS
    workers: Sequence[str] = ("worker-1",)
    jobs: Mapping[str, str] = field(default_factory=dict)
    pricing: Mapping[str, str] = field(default_factory=dict)
    worker: Mapping[str, str] = field(default_factory=dict)
    logs: Path = LOGS


class Stack:
    """What runs. Made by `running`, which ends everything in it."""

    def __init__(self, prepared: Database, plan: Plan, tell: Tell) -> None:
        self.database = prepared
        self.children: dict[str, Child] = {}
        self._plan = plan
        self._tell = tell

    @property
    def jobs(self) -> str:
        """Where JobService answers, host:port."""
        return self.children[JOBS].address

    @property
    def pricing(self) -> str:
        """Where PricingService answers, host:port."""
        return self.children[PRICING].address

    @property
    def models(self) -> Mapping[str, str]:
        """Base URLs of the model servers that were asked for, by name."""
        return {name: self.children[f"{name}-model"].address for name in self._plan.models}

    async def start(self, *, budget: Budget) -> None:
        """Start everything, each as soon as what it needs is there.

        Raises:
            ProcessFailed: one of the processes ended or did not become ready.
            BudgetError: a service did not report to be ready in time, or the tenant could not be seeded.
        """
        models = [self._start(components.model_server(name), budget=budget) for name in self._plan.models]
        await together(*models, self.start_pricing(budget=budget))
        workers = [self.start_worker(name, budget=budget) for name in self._plan.workers]
        await together(*workers, self._seed(budget=budget))
        await self.start_jobs(JOBS, budget=budget)

    async def start_pricing(self, *, budget: Budget) -> Child:
        """Start PricingService, and wait until it is ready."""
        return await self._start_service(
            components.pricing_service(PRICING, self._plan.pricing), budget=budget
        )

    async def start_worker(
        self, name: str, *, budget: Budget, environment: Mapping[str, str] | None = None
    ) -> Child:
        """Start one more worker, and wait until it is ready. `environment` adds to the plan's."""
        command = components.worker(
            name,
            {**self._plan.worker, **(environment or {})},
            database=self.database.dsn(WORKER),
            models=self.models,
        )
        return await self._start_service(command, budget=budget)

    async def start_jobs(
        self, name: str, *, budget: Budget, environment: Mapping[str, str] | None = None
    ) -> Child:
        """Start one more JobService, and wait until it is ready. `environment` adds to the plan's."""
        command = components.jobs_service(
            name,
            {**self._plan.jobs, **(environment or {})},
            database=self.database.dsn(REQUEST),
            reaper_database=self.database.dsn(WORKER),
            readonly_database=self.database.dsn(READONLY),
            pricing=self.pricing,
            workers=[self.children[name].address for name in self._plan.workers],
        )
        return await self._start_service(command, budget=budget)

    async def unless_ended(
        self, work: Coroutine[Any, Any, Result], *, but_for: Collection[str] = ()
    ) -> Result:
        """The result of `work`, or ProcessEnded as soon as a process ends that is not one of `but_for`."""
        watched = [child for name, child in self.children.items() if name not in but_for]
        return await unless_ended(watched, work)

    async def stop(self, *, budget: Budget) -> None:
        """End everything: those who do the work first, then what they need.

        Raises:
            ProcessEnded: when all have ended, for the first one that did not end with 0 when it was asked to.
        """
        asked = [child for child in self.children.values() if child.running]
        serving = [child for child in asked if child.name not in self._needed]
        needed = [child for child in asked if child.name in self._needed]
        await together(*(child.stop(budget=budget) for child in serving))
        await together(*(child.stop(budget=budget) for child in needed))
        for child in asked:
            if exit_code := await child.ended():
                raise child.ending(exit_code)

    @property
    def _needed(self) -> Sequence[str]:
        return (PRICING, *(f"{name}-model" for name in self._plan.models))

    async def _start(self, command: Command, *, budget: Budget) -> Child:
        child = await Child.start(command, logs=self._plan.logs, budget=budget)
        self.children[command.name] = child
        self._tell(command.name, child.address)
        return child

    async def _start_service(self, command: Command, *, budget: Budget) -> Child:
        child = await self._start(command, budget=budget)
        await child.unless_ended(until_ready(child.address, budget=budget))
        return child

    async def _seed(self, *, budget: Budget) -> None:
        await seed_tenant(self.database.dsn(REQUEST), DEMO_TENANT, budget=budget)


def silent(_name: str, _what: str) -> None:
    """Tell nobody."""


@asynccontextmanager
async def running(
    prepared: Database, plan: Plan, *, budget: Budget, tell: Tell = silent
) -> AsyncIterator[Stack]:
    """The stack on a ready database, until the end of the block. Raises what `start` and `stop` do."""
    stack = Stack(prepared, plan, tell)
    try:
        await stack.start(budget=budget)
        yield stack
    except BaseException:
        with suppress(ProcessEnded):  # what went wrong first is what counts
            await stack.stop(budget=Budget.for_work(STOP_LIMIT))
        raise
    await stack.stop(budget=Budget.for_work(STOP_LIMIT))


@asynccontextmanager
async def running_with_database(
    database_url: str | None, plan: Plan, *, budget: Budget, tell: Tell = silent
) -> AsyncIterator[Stack]:
    """The stack with its Postgres: that of `database_url`, or the embedded one, which is stopped too."""
    prepared = await database.prepare(database_url, budget=budget)
    tell("postgres", str(prepared))
    try:
        async with running(prepared, plan, budget=budget, tell=tell) as stack:
            yield stack
    finally:
        await prepared.stop(budget=Budget.for_work(STOP_LIMIT))
