"""How idle workers look for work: often enough, and not all at once."""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING

import pytest

from jobs_store.runs import Dealt, RunStore
from jobs_store.subscriptions import Subscriptions
from tests.store import policy_of
from tests.waiting import eventually
from worker.claimer import Claimer, ClaimTerms
from worker.lanes import Lanes
from worker.lease import Leases
from worker.providers.routes import Routes
from worker.slots import Slots
from worker.tracing import RunTraces

if TYPE_CHECKING:
    from budget.core import Budget
    from jobs_store.runs import ClaimRequest
    from tests.integration.worker.workers import Bench

WORKERS = 20
POLL = 0.5
POLLS_SEEN = 8 * WORKERS
MOMENT = POLL / 10


class WatchedStore(RunStore):
    """Notes when it is asked for jobs."""

    asked: list[float]

    async def claim(self, request: ClaimRequest, *, budget: Budget) -> Dealt:
        self.asked.append(time.monotonic())
        return await super().claim(request, budget=budget)


def claimer(bench: Bench, number: int, asked: list[float]) -> Claimer:
    """That of a worker that started with all the others."""
    store, chance = WatchedStore(bench.store.worker, policy_of), random.Random(number)
    store.asked = asked
    terms = ClaimTerms(
        worker_id=f"worker-{number}",
        worker_address="worker:1",
        lease=30.0,
        poll=POLL,
        limit=5.0,
        cut_off=24.0,
        tenants=100,
        jitter=lambda most: most * chance.random(),
    )
    return Claimer(
        store,
        None,  # type: ignore[arg-type]  # nothing is ever claimed
        lanes=Lanes(Routes(routes=(bench.route(models=("simulated-fast",)),)), store),
        slots=Slots(8),
        leases=Leases(),
        subscriptions=Subscriptions(),
        traces=RunTraces(),
        terms=terms,
    )


@pytest.mark.faults
@pytest.mark.scenario("C8")
async def test_idle_workers_that_started_together_do_not_poll_together(bench: Bench) -> None:
    """In no tenth of the interval do more than half of them look, and each looks about once an interval."""
    asked: list[float] = []
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for number in range(WORKERS):
            group.create_task(claimer(bench, number, asked).run(stop))
        begun = time.monotonic()
        await eventually(lambda: len(asked) >= POLLS_SEEN, within=20.0)
        took = time.monotonic() - begun
        stop.set()
    later = [moment for moment in asked if moment > begun + 1.5 * POLL]
    crowd = max(sum(moment <= other < moment + MOMENT for other in later) for moment in later)
    assert crowd <= WORKERS / 2
    assert 0.5 <= len(asked) / (WORKERS * took / POLL) <= 1.5
