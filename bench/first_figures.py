"""`make bench-first`: how long a create takes, and how long a first token takes to arrive, as JSON.

The whole stack runs on this machine, with its Postgres and its models: the figures are those of a busy
laptop, not of a deployment. Bounded: under two minutes.
"""

import asyncio
import json
import math
import os
import platform
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final
from uuid import uuid4

import grpc.aio

from budget.core import Budget
from hourglass.jobs.v1.job_pb2 import JobSpec, Message, Role
from hourglass.jobs.v1.jobs_service_pb2 import CreateJobRequest
from hourglass.jobs.v1.jobs_service_pb2_grpc import JobServiceStub
from hourglass_client.transcript import Transcript
from launcher.components import REAL_MODEL
from launcher.demo import steps
from launcher.failures import EXPECTED, told
from launcher.settings import DatabaseSettings
from launcher.stack import LOGS, START_LIMIT, Plan, Stack, running_with_database
from servicekit.channels import client_options

SIMULATED: Final = "simulated-fast:tokens=8"
WARM_UP: Final = 50
CREATES: Final = 400
CALLERS: Final = 8
FIRST_TOKENS: Final = 30
REAL_FIRST_TOKENS: Final = 10
CREATE_LIMIT: Final = 2.0
WATCH_LIMIT: Final = 30.0


def figures(seconds: Sequence[float]) -> dict[str, float]:
    """Percentiles by nearest rank, in milliseconds."""
    ordered = sorted(seconds)

    def percentile(share: float) -> float:
        return round(ordered[math.ceil(share * len(ordered)) - 1] * 1000, 2)

    return {"count": len(ordered), "p50_ms": percentile(0.5), "p99_ms": percentile(0.99)}


async def create(stub: Any, model: str) -> str:
    """Create one job of a few tokens; its id."""
    message = Message(role=Role.ROLE_USER, content="Count to eight.")
    spec = JobSpec(model=model, messages=[message], max_output_token_count=8)
    request = CreateJobRequest(idempotency_key=str(uuid4()), spec=spec)
    response = await stub.CreateJob(request, timeout=Budget.for_work(CREATE_LIMIT).wire_timeout())
    return str(response.job.job_id)


async def until_first_token(target: str, stub: Any, model: str) -> None:
    """Create a job and watch it until a token arrives."""
    job_id = await create(stub, model)
    transcript = Transcript()
    await steps.watch(
        target, job_id, transcript, lambda seen: seen.token_count > 0, budget=Budget.for_work(WATCH_LIMIT)
    )


async def timed(action: Callable[[], Awaitable[object]], count: int, *, callers: int = 1) -> list[float]:
    """How long each of `count` runs took, `callers` of them at a time."""
    took: list[float] = []

    async def caller() -> None:
        for _ in range(count // callers):
            started = time.perf_counter()
            await action()
            took.append(time.perf_counter() - started)

    await asyncio.gather(*(caller() for _ in range(callers)))
    return took


async def measure(stack: Stack) -> dict[str, Any]:
    """All figures, one after the other."""
    async with grpc.aio.insecure_channel(stack.jobs, options=client_options()) as channel:
        stub: Any = JobServiceStub(channel)

        async def one_create() -> object:
            return await create(stub, SIMULATED)

        async def first_token(model: str) -> None:
            await until_first_token(stack.jobs, stub, model)

        await timed(one_create, WARM_UP)
        alone = await timed(one_create, CREATES)
        together = await timed(one_create, CREATES, callers=CALLERS)
        simulated = await timed(lambda: first_token(SIMULATED), FIRST_TOKENS)
        real = await timed(lambda: first_token(REAL_MODEL), REAL_FIRST_TOKENS)
    return {
        "create_job": {"one_caller": figures(alone), f"{CALLERS}_callers": figures(together)},
        "create_to_first_token": {SIMULATED: figures(simulated), REAL_MODEL: figures(real)},
    }


async def main() -> int:
    """Print the figures; 1 when the stack did not run."""
    settings = DatabaseSettings.load()
    plan = Plan(logs=LOGS / "bench")
    try:
        async with running_with_database(
            settings.database_url, plan, budget=Budget.for_work(START_LIMIT)
        ) as stack:
            measured = await stack.unless_ended(measure(stack))
            runs_on = {
                "python": platform.python_version(),
                "processors": os.cpu_count(),
                "postgres": stack.database.version,
            }
    except EXPECTED as error:
        print(told(error), file=sys.stderr)
        return 1
    print(json.dumps({"runs_on": runs_on, **measured}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
