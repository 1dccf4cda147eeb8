"""JobService, a real worker, and a proxy between the worker and a simulated provider."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from pydantic import SecretStr

from hourglass.jobs.v1 import job_pb2
from hourglass.jobs.v1 import jobs_service_pb2 as pb
from tests.chaos_proxy import ChaosProxy
from tests.jobs import TENANT, Jobs, jobs_server, of, pricing_server
from tests.model_server import requests_seen
from tests.postgres import TestDatabase
from tests.scenarios.stage import FUNDS
from tests.waiting import eventually
from worker.app import Worker, working
from worker.providers.routes import ProviderRoute
from worker.settings import WorkerSettings

TERMINAL = frozenset(
    {
        job_pb2.JOB_STATE_SUCCEEDED,
        job_pb2.JOB_STATE_FAILED,
        job_pb2.JOB_STATE_CANCELLED,
        job_pb2.JOB_STATE_EXPIRED,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """What runs, and the provider's own view."""

    jobs: Jobs
    worker: Worker
    provider: str
    to_provider: ChaosProxy

    async def create(self, model: str, **fields: Any) -> str:
        """The id of a new job."""
        answer = await self.jobs.create(f"key of {model}", timeout=10, model=model, **fields)
        return str(answer.job.job_id)

    async def get(self, job_id: str) -> job_pb2.Job:
        """The job with its attempts."""
        request = pb.GetJobRequest(job_id=job_id, include_attempts=True)
        job: job_pb2.Job = (await self.jobs.jobs.GetJob(request, timeout=5, metadata=of(TENANT))).job
        return job

    async def ended(self, job_id: str) -> job_pb2.Job:
        """The job once it is terminal."""

        async def terminal() -> job_pb2.Job | None:
            job = await self.get(job_id)
            return job if job.state in TERMINAL else None

        job = await eventually(terminal, within=20)
        assert job is not None
        return job

    async def seen(self, model: str) -> list[dict[str, Any]]:
        """What the provider saw of the calls for a model."""
        every = await asyncio.to_thread(requests_seen, self.provider)
        return [request for request in every["requests"] if request["model"] == model]


@asynccontextmanager
async def running(
    database: TestDatabase, provider: str, *, jobs: Mapping[str, Any] | None = None, **settings: Any
) -> AsyncIterator[Runs]:
    """All of it over a fresh database. `jobs`: changes to JobsSettings; `settings`: to WorkerSettings."""
    port = urlsplit(provider).port
    assert port is not None
    async with (
        ChaosProxy.to_tcp("127.0.0.1", port) as proxy,
        working(worker_settings(database, proxy.port, settings), asyncio.Event()) as worker,
        pricing_server() as pricing,
        jobs_server(
            database, pricing=pricing, **{"workers_target": worker.address, **(jobs or {})}
        ) as server,
    ):
        await server.fund(TENANT, FUNDS)
        yield Runs(jobs=server, worker=worker, provider=provider, to_provider=proxy)


def worker_settings(database: TestDatabase, port: int, changed: dict[str, Any]) -> WorkerSettings:
    """A quick worker with one route, to a port of this machine. `models` and `api_key` are the route's."""
    changed = dict(changed)
    route = ProviderRoute(
        name="simulated",
        models=changed.pop("models", ("simulated*",)),
        api_key=changed.pop("api_key", SecretStr("none")),
        base_url=f"http://127.0.0.1:{port}/v1",
        connect=1.0,
        first_token=10.0,
        between_tokens=10.0,
    )
    values: dict[str, Any] = {
        "listen": "127.0.0.1:0",
        "database_url": database.worker,
        "name": "worker-1",
        "routes": (route,),
        "poll_interval": 0.1,
        "flush_interval": 0.02,
        "backoff_base": 0.0,
        "reap_wait": 0.0,
        "drain_grace": 2.0,
        **changed,
    }
    return WorkerSettings(**values)
