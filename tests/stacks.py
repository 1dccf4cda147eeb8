"""The whole stack for tests, on a database of the test's own, and a caller for it."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from budget.core import Budget
from hourglass.jobs.v1.job_pb2 import Job, JobSpec, Message, Role, UnknownOutcomePolicy
from hourglass.jobs.v1.jobs_service_pb2 import (
    CreateJobRequest,
    CreateJobResponse,
    GetJobRequest,
    WatchJobRequest,
)
from hourglass.jobs.v1.jobs_service_pb2_grpc import JobServiceStub
from hourglass_client.transcript import Transcript
from launcher.components import SIMULATED
from launcher.database import Database
from launcher.demo.steps import Seen
from launcher.stack import Plan, Stack, running
from servicekit.channels import client_options
from tests.postgres import TestDatabase

START_LIMIT = 60.0
CALL_LIMIT = 10.0
WATCH_LIMIT = 45.0
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
RETRY = UnknownOutcomePolicy.UNKNOWN_OUTCOME_POLICY_RETRY
# Leases and intervals scaled down, so that a death is noticed in a second or two.
QUICK_WORKER: Mapping[str, str] = {
    "LEASE": "3",
    "CUT_OFF": "2.4",
    "RENEWAL_INTERVAL": "0.5",
    "RENEWAL_LIMIT": "0.5",
    "RENEWAL_RETRY": "0.1",
    "REAP_INTERVAL": "0.5",
    "REAP_WAIT": "0",
    "POLL_INTERVAL": "0.2",
}
QUICK_JOBS: Mapping[str, str] = {"REAP_INTERVAL": "0.5", "REAP_WAIT": "0"}


def connected(target: str) -> grpc.aio.Channel:
    """A connection of its own to a service."""
    return grpc.aio.insecure_channel(target, options=client_options())


def prepared(database: TestDatabase) -> Database:
    """A test's database as the launcher knows databases."""
    return Database(owner_dsn=database.owner, version="of the tests", server=None)


@asynccontextmanager
async def stack_on(
    database: TestDatabase,
    logs: Path,
    *,
    models: Sequence[str] = (SIMULATED,),
    workers: Sequence[str] = ("worker-1",),
    worker: Mapping[str, str] | None = None,
    jobs: Mapping[str, str] | None = None,
) -> AsyncIterator[Stack]:
    """The stack, with quick leases. `worker` and `jobs` add settings."""
    plan = Plan(
        models=models,
        workers=workers,
        worker={**QUICK_WORKER, **(worker or {})},
        jobs={**QUICK_JOBS, **(jobs or {})},
        logs=logs,
    )
    async with running(prepared(database), plan, budget=Budget.for_work(START_LIMIT)) as stack:
        yield stack


class Caller:
    """A caller of one JobService: tenant `demo`."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.stub: Any = JobServiceStub(channel)

    async def create(self, spec: JobSpec, *, key: str | None = None) -> CreateJobResponse:
        """Create a job; a fresh key unless one is given."""
        request = CreateJobRequest(idempotency_key=key or str(uuid4()), spec=spec)
        response: CreateJobResponse = await self.stub.CreateJob(request, timeout=CALL_LIMIT)
        return response

    async def get(self, job_id: str) -> Job:
        """The job with everything."""
        request = GetJobRequest(job_id=job_id, include_attempts=True, include_content=True)
        job: Job = (await self.stub.GetJob(request, timeout=CALL_LIMIT)).job
        return job

    async def watch(
        self, job_id: str, transcript: Transcript | None = None, seen: Seen = lambda _: False
    ) -> Transcript:
        """Read one stream, without ever reconnecting, until the terminal event or until `seen` says so."""
        transcript = transcript or Transcript()
        request = WatchJobRequest(job_id=job_id, after_sequence=transcript.cursor)
        call = self.stub.WatchJob(request, timeout=WATCH_LIMIT)
        async for message in call:
            if message.WhichOneof("message") == "event":
                transcript.add(message.event)
                if seen(transcript):
                    break
        call.cancel()
        return transcript


async def health(target: str, service: str) -> int:
    """What a process says of itself: SERVING, NOT_SERVING."""
    async with connected(target) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        answer = await stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=CALL_LIMIT)
        return int(answer.status)


@asynccontextmanager
async def calling(target: str) -> AsyncIterator[Caller]:
    """A caller on a connection of its own."""
    async with connected(target) as channel:
        yield Caller(channel)


def spec_of(model: str, *, prompt: str = "Say something.", **fields: Any) -> JobSpec:
    """A job of one message."""
    message = Message(role=Role.ROLE_USER, content=prompt)
    return JobSpec(model=model, messages=[message], **{"max_output_token_count": 64, **fields})


async def funds(database: TestDatabase, tenant: str = "demo") -> Mapping[str, Decimal]:
    """What the tenant has, in dollars: funded, available, reserved, captured."""
    row = await _row(
        database,
        "SELECT funded, available, reserved, captured FROM hourglass.tenant_funds WHERE tenant_id = $1",
        tenant,
    )
    return dict(row)


async def count(database: TestDatabase, table: str) -> int:
    """Rows of one of our tables."""
    row = await _row(database, f"SELECT count(*) AS n FROM hourglass.{table}")
    number: int = row["n"]
    return number


async def rows(database: TestDatabase, query: str, *arguments: object) -> Sequence[Mapping[str, Any]]:
    """What a query finds, as the owner sees it."""
    connection = await asyncpg.connect(database.owner)
    try:
        return [dict(row) for row in await connection.fetch(query, *arguments)]
    finally:
        await connection.close()


async def execute(database: TestDatabase, statement: str) -> None:
    """Change the database as its owner."""
    connection = await asyncpg.connect(database.owner)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


async def _row(database: TestDatabase, query: str, *arguments: object) -> Any:
    connection = await asyncpg.connect(database.owner)
    try:
        return await connection.fetchrow(query, *arguments)
    finally:
        await connection.close()
