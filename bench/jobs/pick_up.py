"""Pick-up: from the commit of a create to the call of the provider, by an idle worker, beside three commits.

Between the two lie a wake-up, a claim and the start step: three statements that commit.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.budget.figures import Figure, middle, percentile
from bench.jobs.jobs import new_job, policy_of
from bench.jobs.statements import statement
from budget.core import Budget
from budget.postgres import Database
from jobs_store.creation import JobCreation
from jobs_store.identifiers import JobId, TenantId
from jobs_store.pacing import Backoff
from jobs_store.wakeups import Notifier, jobs_ready

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.budget.children import Child
    from bench.jobs.environment import Environment, Place

LANE: Final = "instant/fast"
CREATES: Final = 150
PAUSE: Final = 0.015
STEP: Final = 5.0
TARGETS: Final = {0.5: 0.005, 0.99: 0.025}
"""Seconds above three commits, by share of the jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Seconds from commit to call of each job, and of single commits between them."""

    pick_ups: Sequence[float]
    commits: Sequence[float]


async def measure(environment: Environment) -> list[Figure]:
    """One job at a time, each by a worker that has nothing else to do."""
    place = await environment.place("empty")
    worker = await place.worker("one", model="fast")
    await place.fill(1, lane=LANE)
    request = await _open(place.request_dsn, "creates")
    notices = await _open(place.worker_dsn, "notices")
    notifier = Notifier(notices, policy_of, backoff=Backoff(jitter=lambda most: most))
    stop = asyncio.Event()
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(notifier.run(stop), name="notifier")
            creates = Creates(place, worker, JobCreation(request, policy_of), notifier)
            await creates.warm_up()
            rounds = await environment.quiet.rounds(creates.round)
            stop.set()
    finally:
        await asyncio.gather(*(database.close(Budget.for_work(STEP)) for database in (request, notices)))
    return [_figure(rounds, share, target) for share, target in TARGETS.items()]


class Creates:
    """Makes jobs as the job service does: commit, then wake-up."""

    def __init__(self, place: Place, worker: Child, creation: JobCreation, notifier: Notifier) -> None:
        self._place = place
        self._worker = worker
        self._creation = creation
        self._notifier = notifier

    async def warm_up(self) -> None:
        """Plans are made, connections are up."""
        await self._place.owner.execute(statement("open_lanes"))
        await self.round()

    async def round(self) -> Round:
        """CREATES jobs, a pause after each."""
        await self._worker.ask("note_calls")
        made: dict[JobId, float] = {}
        commits: list[float] = []
        for number in range(CREATES):
            job = new_job(TenantId(f"tenant-{number % 100:03}"), lane=LANE)
            await self._creation.create(job, budget=Budget.for_work(STEP))
            made[job.job_id] = time.time()
            self._notifier.notify(jobs_ready(LANE))
            await asyncio.sleep(PAUSE)
            commits.append(await self._commit())
        return Round(pick_ups=await self._pick_ups(made), commits=commits)

    async def _pick_ups(self, made: dict[JobId, float]) -> list[float]:
        await self._place.until_done()
        calls = await self._worker.ask("note_calls")
        rows = await self._place.owner.fetch(statement("read_tokens"), list(made))
        assert len(rows) == len(made), (len(rows), len(made))
        return [calls[row["token"]] - made[row["job_id"]] for row in rows]

    async def _commit(self) -> float:
        begun = time.perf_counter()
        await self._place.owner.execute(statement("commit_little"))
        return time.perf_counter() - begun


def _figure(rounds: Sequence[Round], share: float, target: float) -> Figure:
    commits = [percentile(one.commits, 0.5) for one in rounds]
    took = [percentile(one.pick_ups, share) for one in rounds]
    above = [1000 * (a - 3 * b) for a, b in zip(took, commits, strict=True)]
    return Figure(
        name=f"pick-up, p{share * 100:.0f} above three commits",
        unit="ms",
        ours=middle(above),
        target=1000 * target,
        at_least=False,
        samples=above,
        notes={
            "pick_up_ms": 1000 * middle(took),
            "one_commit_p50_ms": 1000 * middle(commits),
            "jobs_a_round": CREATES,
        },
    )


async def _open(dsn: str, name: str) -> Database:
    return await Database.open(dsn, budget=Budget.for_work(STEP), size=1, application_name=name)
