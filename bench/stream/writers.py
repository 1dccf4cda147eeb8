"""Two hundred writers, with progress and without: what it costs, and whether a commit waits for NOTIFY."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random
from typing import Final

import asyncpg

from bench.budget.figures import Figure, middle
from bench.stream.stage import TENANT, Stage
from budget.core import Budget
from budget.postgres import Database
from jobs_store.runs import FIRST_FREE_EVENT, Claimed
from jobs_store.signals import job_changed, jobs_ready
from jobs_store.wakeups import Backoff, Notifier
from tests.store import LANE, Store, acceptance_of, deltas_of, policy_of, time_enough
from worker.group_commit import GroupCommit

WRITERS: Final = 200
SECONDS: Final = 6.0
ROUNDS: Final = 3
SAMPLE: Final = 0.005
# NOTIFY takes this lock at commit: an object of the shared catalog pg_database with id 0.
_WAITING: Final = """
    SELECT count(*) FROM pg_locks
    WHERE locktype = 'object' AND classid = 'pg_database'::regclass AND objid = 0 AND NOT granted
"""


class Writers:
    """Each creates a job, has it claimed, writes its progress when that is on, and has it accepted."""

    def __init__(self, store: Store, notifier: Notifier | None) -> None:
        self.done = 0
        self._store = store
        self._notifier = notifier
        self._claimed: asyncio.Queue[Claimed] = asyncio.Queue()
        self._creates = asyncio.Semaphore(8)
        runs = store.runs
        self._appends = GroupCommit("append", runs.append, limit=10.0)
        self._finishes = GroupCommit("finish", runs.finish, limit=10.0)

    async def run(self, seconds: float) -> float:
        """Jobs a second."""
        stop = asyncio.Event()
        started = time.monotonic()
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._write()) for _ in range(WRITERS)]
            tasks.append(group.create_task(self._claim()))
            loops = [group.create_task(each.run(stop)) for each in (self._appends, self._finishes)]
            await asyncio.sleep(seconds)
            took, done = time.monotonic() - started, self.done
            for task in tasks:
                task.cancel()
            stop.set()
            await asyncio.wait([*tasks, *loops])
        return done / took

    async def _claim(self) -> None:
        while True:
            found = await self._store.claim(100)
            if found:
                await self._store.start(*found)
            for run in found:
                self._claimed.put_nowait(run)
            await asyncio.sleep(0 if found else 0.005)

    async def _write(self) -> None:
        while True:
            async with self._creates:
                await self._store.create(TENANT)
            if self._notifier is not None:
                self._notifier.notify(jobs_ready(LANE))
            run = await self._claimed.get()
            acceptance = acceptance_of(run)
            if self._notifier is not None:
                await self._appends.submit(deltas_of(run, "Hello, ", "world."))
                fence = replace(acceptance.fence, first_event=FIRST_FREE_EVENT + 3)
                acceptance = replace(acceptance, fence=fence)
            await self._finishes.submit(acceptance)
            if self._notifier is not None:
                self._notifier.notify(job_changed(run.tenant, run.job_id))
            self.done += 1


async def measure(stage: Stage) -> list[Figure]:
    """Rounds with progress and without alternate."""
    on, off, waits, samples = [], [], 0, 0
    for _ in range(ROUNDS):
        off.append(await Writers(stage.store, None).run(SECONDS))
        async with notifying(stage) as notifier, sampling(stage) as found:
            on.append(await Writers(stage.store, notifier).run(SECONDS))
        waits, samples = waits + sum(found), samples + len(found)
    return [
        Figure(
            name=f"{WRITERS} writers: jobs with progress beside jobs without",
            unit="jobs/s",
            ours=middle(on),
            other=middle(off),
            other_name="without progress",
            of_ratio=True,
            target=0.8,
            samples=on,
            ratios=[a / b for a, b in zip(on, off, strict=True)],
        ),
        Figure(
            name="commits seen waiting for the NOTIFY lock",
            unit="sightings",
            ours=waits,
            target=0,
            at_least=False,
            notes={"samples": samples},
        ),
    ]


@asynccontextmanager
async def notifying(stage: Stage) -> AsyncIterator[Notifier]:
    """A notifier at work, as a process has one."""
    random, stop = Random(1), asyncio.Event()
    database = await Database.open(
        stage.store.database.request, budget=time_enough(), size=1, application_name="notify"
    )
    notifier = Notifier(database, policy_of, backoff=Backoff(jitter=lambda most: random.uniform(0, most)))
    async with asyncio.TaskGroup() as group:
        group.create_task(notifier.run(stop))
        yield notifier
        stop.set()
    await database.close(Budget.for_work(2.0))


@asynccontextmanager
async def sampling(stage: Stage) -> AsyncIterator[list[int]]:
    """Looks again and again how many sessions wait for that lock."""
    found: list[int] = []
    connection = await asyncpg.connect(stage.store.database.owner)

    async def look() -> None:
        while True:
            found.append(await connection.fetchval(_WAITING))
            await asyncio.sleep(SAMPLE)

    looking = asyncio.create_task(look())
    try:
        yield found
    finally:
        looking.cancel()
        await asyncio.wait({looking})
        await connection.close()
