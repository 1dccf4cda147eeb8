"""Processes held at a step of their work from outside, so that they can be killed there and nowhere else."""

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import asyncpg

from budget.core import Budget
from launcher.components import SIMULATED
from launcher.processes import together
from launcher.stack import Stack
from tests.chaos_proxy import ChaosProxy
from tests.integration.store.invariants import broken
from tests.model_server import requests_seen
from tests.postgres import TestDatabase
from tests.proxied import proxy_to, through
from tests.stacks import START_LIMIT, rows
from tests.waiting import eventually

NEVER = "600"
START = b'"provider_model"'
"""Stands in what a start step sends, and nothing before it."""
ACCEPTANCE = b'"charge"'
"""Stands in what an acceptance sends, and in nothing before it."""
COMMIT = b"COMMIT"


class Step(StrEnum):
    """Where a worker is held. The value is the model whose jobs it runs: each step has a lane of its own."""

    CLAIMED = "simulated"
    STARTED = "simulated-fast"
    CALLED = "simulated-slow:tps=0"
    ANSWERED = "simulated-drip:tokens=10,tps=0"
    COMMITTED = "simulated-no-usage:tps=0"

    @property
    def lane(self) -> str:
        """Its lane's model."""
        return self.value.partition(":")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A worker that will be held at its step, and the two networks that hold it."""

    step: Step
    name: str
    to_postgres: ChaosProxy
    to_provider: ChaosProxy

    def arm(self) -> None:
        """From now on it gets as far as its step."""
        proxy = self.to_postgres
        match self.step:
            case Step.CLAIMED:
                proxy.when(START, proxy.freeze)
            case Step.STARTED:
                proxy.when(START, proxy.withhold)
            case Step.CALLED:
                self.to_provider.withhold()
            case Step.ANSWERED:
                proxy.when(ACCEPTANCE, proxy.freeze)
            case Step.COMMITTED:
                proxy.when(ACCEPTANCE, partial(proxy.when, COMMIT, proxy.withhold))

    def release(self) -> None:
        """Nothing holds it any more."""
        self.to_postgres.flow()
        self.to_provider.flow()


def route(base_url: str, models: Sequence[str]) -> str:
    """The setting of a worker that serves these models, of a provider that cannot be asked afterwards."""
    patterns = [pattern for model in models for pattern in (model, f"{model}:*")]
    return json.dumps([{"name": SIMULATED, "base_url": base_url, "models": patterns, "connect": 2.0}])


@asynccontextmanager
async def victims(stack: Stack, database: TestDatabase) -> AsyncIterator[Mapping[Step, Victim]]:
    """A worker for each step, armed. They reap nothing themselves."""
    async with AsyncExitStack() as proxies:
        made = {
            step: Victim(
                step=step,
                name=f"worker-{step.lane}",
                to_postgres=await proxies.enter_async_context(proxy_to(database.worker)),
                to_provider=await proxies.enter_async_context(_proxy_to_provider(stack)),
            )
            for step in Step
        }
        await together(*(_start(victim, stack, database) for victim in made.values()))
        yield made


async def _start(victim: Victim, stack: Stack, database: TestDatabase) -> None:
    await stack.start_worker(
        victim.name,
        budget=Budget.for_work(START_LIMIT),
        environment={
            "DATABASE_URL": through(victim.to_postgres, database.worker),
            "ROUTES": route(f"http://127.0.0.1:{victim.to_provider.port}/v1", [victim.step.lane]),
            "WAKE_UPS": "false",
            "REAP_WAIT": NEVER,
            "RETENTION_INTERVAL": NEVER,
        },
    )
    victim.arm()


def _proxy_to_provider(stack: Stack) -> Any:
    port = urlsplit(stack.models[SIMULATED]).port
    assert port is not None
    return ChaosProxy.to_tcp("127.0.0.1", port)


async def held_there(stack: Stack, database: TestDatabase, jobs: Mapping[Step, str]) -> None:
    """Waits until every job is as far as its step, and the worker behind it cannot go on."""
    for step, job_id in jobs.items():
        await eventually(partial(_reached(step), stack, database, job_id), within=15.0)


def _reached(step: Step) -> Callable[[Stack, TestDatabase, str], Any]:
    reached: Mapping[Step, Callable[[Stack, TestDatabase, str], Any]] = {
        Step.CLAIMED: partial(_row_is, "state = 'RUNNING' AND send_time IS NULL"),
        Step.STARTED: partial(_row_is, "send_time IS NOT NULL"),
        Step.CALLED: partial(_provider_says, step, {"open", "finished"}),
        Step.ANSWERED: partial(_provider_says, step, {"finished"}),
        Step.COMMITTED: _has_result,
    }
    return reached[step]


async def _row_is(condition: str, _stack: Stack, database: TestDatabase, job_id: str) -> bool:
    found = await rows(
        database, f"SELECT id FROM hourglass.jobs WHERE id = $1::text::uuid AND {condition}", job_id
    )
    return bool(found)


async def _provider_says(
    step: Step, states: set[str], stack: Stack, _database: TestDatabase, _job_id: str
) -> bool:
    return any(call["state"] in states for call in calls(stack, step))


async def _has_result(_stack: Stack, database: TestDatabase, job_id: str) -> bool:
    return bool(
        await rows(database, "SELECT id FROM hourglass.job_results WHERE id = $1::text::uuid", job_id)
    )


def calls(stack: Stack, step: Step) -> list[dict[str, Any]]:
    """What the provider saw of a step's jobs."""
    every = requests_seen(stack.models[SIMULATED])["requests"]
    return [call for call in every if call["model"] == step.value]


async def assert_invariants(database: TestDatabase) -> None:
    """Nothing in the database contradicts anything else."""
    connection = await asyncpg.connect(database.owner)
    try:
        assert {} == await broken(connection)
    finally:
        await connection.close()
