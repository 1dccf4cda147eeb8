"""Workers in this process, jobs for them, and what became of those."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import asyncpg

from jobs_store.identifiers import START, JobId, TenantId
from tests.model_server import request_of, requests_seen
from tests.store import TENANT, Store, open_store, policy_of, price, time_enough
from tests.waiting import eventually
from worker.app import Worker, working
from worker.providers.routes import ProviderRoute
from worker.settings import WorkerSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from decimal import Decimal

    from jobs_store.events import Event
    from jobs_store.new_job import Price
    from jobs_store.reading import Attempted, JobDetail
    from jobs_store.states import JobState
    from jobs_store.wakeups import Signal
    from tests.postgres import TestDatabase

SIMULATED = "simulated"
CANCEL_WITH_THE_CLAIM = """
CREATE FUNCTION hourglass.cancel_with_the_claim() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.cancel_request_time := clock_timestamp();
    NEW.cancel_principal := 'ada';
    NEW.cancel_reason := '';
    RETURN NEW;
END $$;
CREATE TRIGGER cancel_with_the_claim BEFORE UPDATE ON hourglass.jobs FOR EACH ROW
    WHEN (OLD.state = 'QUEUED' AND NEW.state = 'RUNNING') EXECUTE FUNCTION hourglass.cancel_with_the_claim();
"""


@dataclass(kw_only=True)
class Bench:
    """A store with a funded tenant, and the provider's address."""

    database: TestDatabase
    store: Store
    provider: str
    stops: list[asyncio.Event] = field(default_factory=list)

    def settings(self, **changed: Any) -> WorkerSettings:
        """A worker's settings with everything quick."""
        values: dict[str, Any] = {
            "listen": "127.0.0.1:0",
            "database_url": self.database.worker,
            "name": "worker-1",
            "routes": (self.route(),),
            "slots": 8,
            "poll_interval": 0.1,
            "flush_interval": 0.02,
            "coalesce": 0.0,
            "backoff_base": 0.0,
            "reap_wait": 0.0,
            "reap_interval": 60.0,
            "drain_grace": 5.0,
            **changed,
        }
        return WorkerSettings(**values)

    def route(self, **changed: Any) -> ProviderRoute:
        """A route to the simulated provider."""
        values: dict[str, Any] = {
            "name": SIMULATED,
            "models": ("simulated*",),
            "base_url": f"{self.provider}/v1",
            "connect": 1.0,
            "first_token": 10.0,
            "between_tokens": 10.0,
            **changed,
        }
        return ProviderRoute(**values)

    @asynccontextmanager
    async def worker(self, **changed: Any) -> AsyncIterator[Worker]:
        """A running worker; at the end it drains."""
        async with working(self.settings(**changed), asyncio.Event()) as worker:
            yield worker

    @asynccontextmanager
    async def detached(self, **changed: Any) -> AsyncIterator[Detached]:
        """A worker in a task of its own, as a process would have it: it ends when its stop event is set."""
        stopping, started = asyncio.Event(), asyncio.get_running_loop().create_future()
        task = asyncio.create_task(_work(self.settings(**changed), stopping, started), name="worker")
        await asyncio.wait({task, started}, return_when=asyncio.FIRST_COMPLETED)
        try:
            yield Detached(worker=started.result(), stopping=stopping, task=task)
        finally:
            stopping.set()
            await task

    async def administer(self, script: str) -> None:
        """Run a script as the owner of the database."""
        connection = await asyncpg.connect(self.database.owner)
        try:
            await connection.execute(script)
        finally:
            await connection.close()

    async def job(self, model: str, tenant: TenantId = TENANT, **changed: Any) -> JobId:
        """Create a job for a simulated model."""
        lane = f"{SIMULATED}/{model.partition(':')[0]}"
        return await self.store.create(tenant, model=model, price=self.price(lane), **changed)

    def price(self, lane: str) -> Price:
        """What a job in a lane costs."""
        return price(lane=lane)

    async def count(self, sql: str) -> int:
        """One number from the database."""
        return int(await self._look(sql))

    async def get(self, job_id: JobId, tenant: TenantId = TENANT) -> JobDetail:
        """The job as it is."""
        return await self.store.reader.get(
            tenant, job_id, budget=time_enough(), with_attempts=True, with_content=True
        )

    async def events(self, job_id: JobId, tenant: TenantId = TENANT) -> list[Event]:
        """Its durable events."""
        return list(
            await self.store.reader.events(tenant, job_id, after=START, limit=10_000, budget=time_enough())
        )

    async def ends(self, job_id: JobId, tenant: TenantId = TENANT, *, within: float = 15.0) -> JobDetail:
        """The job once it is terminal."""

        async def terminal() -> JobDetail | None:
            detail = await self.get(job_id, tenant)
            return detail if detail.job.state.terminal else None

        found = await eventually(terminal, within=within)
        assert found is not None
        return found

    async def reaches(self, job_id: JobId, state: JobState, *, within: float = 15.0) -> JobDetail:
        """The job once it is in a state."""

        async def reached() -> JobDetail | None:
            detail = await self.get(job_id)
            return detail if detail.job.state is state else None

        found = await eventually(reached, within=within)
        assert found is not None
        return found

    async def token_of(self, job_id: JobId) -> str:
        """The run token that stands on the row: the provider's request key."""
        row = await self.store.worker.fetchrow(
            time_enough(),
            policy_of("look"),
            "SELECT run_token FROM hourglass.jobs WHERE id = $1 AND run_token IS NOT NULL",
            job_id,
        )
        return "" if row is None else str(row["run_token"])

    async def sent(self, job_id: JobId) -> str:
        """The request key of the job's call, once the provider has seen it."""

        async def arrived() -> str:
            key = await self.token_of(job_id)
            return key if key and await self.seen(key) is not None else ""

        return await eventually(arrived, within=10.0)

    async def notify(self, signal: Signal) -> None:
        """Send a wake-up, as the process would that has something to tell."""
        await self.store.worker.execute(
            time_enough(),
            policy_of("notify"),
            "SELECT pg_notify($1, $2)",
            signal.channel.value,
            signal.key,
        )

    async def cancel_with_the_claim(self) -> None:
        """From now on a cancel stands in the row as soon as a job is claimed: before its start step."""
        await self.administer(CANCEL_WITH_THE_CLAIM)

    async def expire_lease(self, job_id: JobId) -> None:
        """Ends the lease of a running job now."""
        await self._look(
            "UPDATE hourglass.jobs SET lease_until = clock_timestamp() - interval '1 s' "
            "WHERE id = $1 RETURNING id",
            job_id,
        )

    async def take_over(self, job_id: JobId) -> None:
        """What the reaper does when a lease is over; a renewal may come between and has to be beaten."""

        async def taken() -> bool:
            await self.expire_lease(job_id)
            return (await self.store.reaper.reap(budget=time_enough())).taken_over == 1

        await eventually(taken)

    async def lease_left(self, job_id: JobId) -> float:
        """Seconds of a running job's lease."""
        return float(
            await self._look(
                "SELECT extract(epoch FROM lease_until - clock_timestamp()) FROM hourglass.jobs "
                "WHERE id = $1",
                job_id,
            )
        )

    @asynccontextmanager
    async def gate(self) -> AsyncIterator[Gate]:
        """A closed gate, for triggers that wait at it: `pg_advisory_xact_lock_shared(42)`."""
        connection = await asyncpg.connect(self.database.owner)
        try:
            await connection.execute("SELECT pg_advisory_lock(42)")
            yield Gate(connection)
        finally:
            await connection.close()

    @asynccontextmanager
    async def row_lock(self, job_id: JobId) -> AsyncIterator[None]:
        """Holds the row of a job."""
        connection = await asyncpg.connect(self.database.owner)
        try:
            await connection.execute("BEGIN")
            await connection.execute("SELECT FROM hourglass.jobs WHERE id = $1 FOR UPDATE", job_id)
            yield
        finally:
            await connection.close()

    async def renewal_met_a_lock(self) -> bool:
        """Whether what a renewal asked last is whether a row that it could not lock still shows its token."""
        return bool(
            await self._look(
                "SELECT count(*) FROM pg_stat_activity "
                "WHERE application_name LIKE 'renewal%' AND query LIKE '%BUSY%'"
            )
        )

    async def _look(self, sql: str, *arguments: object) -> Any:
        return await self.store.worker.fetchval(time_enough(), policy_of("look"), sql, *arguments)

    async def seen(self, key: str) -> dict[str, Any] | None:
        """What the provider saw of a call."""
        return await request_of(self.provider, key)

    def all_seen(self) -> list[dict[str, Any]]:
        """Every call that the provider saw, in order."""
        seen: list[dict[str, Any]] = requests_seen(self.provider)["requests"]
        return seen

    async def lane(self, lane: str) -> dict[str, Any]:
        """A lane's row."""
        row = await self.store.worker.fetchrow(
            time_enough(), policy_of("look"), "SELECT * FROM hourglass.lanes WHERE lane = $1", lane
        )
        assert row is not None
        return dict(row)

    async def funds(self, tenant: TenantId = TENANT) -> tuple[Decimal, Decimal]:
        """Reserved and captured."""
        found = await self.store.tenants.get(tenant, budget=time_enough())
        assert found.funded == found.available + found.reserved + found.captured
        return found.reserved, found.captured


@dataclass(frozen=True, kw_only=True)
class Detached:
    """A worker that runs in a task of its own."""

    worker: Worker
    stopping: asyncio.Event
    task: asyncio.Task[None]


async def _work(settings: WorkerSettings, stopping: asyncio.Event, started: asyncio.Future[Worker]) -> None:
    async with working(settings, stopping) as worker:
        started.set_result(worker)
        await stopping.wait()


class Gate:
    """A gate in the database, closed at first."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def waiting(self) -> bool:
        """Whether somebody waits at it."""
        return bool(
            await self._connection.fetchval(
                "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted "
                "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
            )
        )

    async def open(self) -> None:
        """Let everybody through."""
        await self._connection.execute("SELECT pg_advisory_unlock(42)")


def outcomes(detail: JobDetail) -> list[str]:
    """What came of its attempts, in order."""
    return [attempt.end.outcome for attempt in attempts(detail)]


def attempts(detail: JobDetail) -> list[Attempted]:
    """Its ended attempts, in order."""
    return sorted(detail.attempts, key=lambda attempt: attempt.number)


@asynccontextmanager
async def open_bench(database: TestDatabase, provider: str) -> AsyncIterator[Bench]:
    """A bench over a fresh database."""
    async with open_store(database) as store:
        await store.tenant()
        yield Bench(database=database, store=store, provider=provider)
