"""The stack as over a network: mTLS between the processes, services by certificate, callers by JWT."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from budget.core import Budget
from hourglass_client import AsyncClient, TlsFiles
from jobs_store.identifiers import TenantId
from launcher import components
from launcher.components import SIMULATED
from launcher.processes import Child, Command
from launcher.readiness import READINESS
from launcher.roles import READONLY, REQUEST, WORKER
from launcher.seed import seed_tenant
from servicekit.channels import client_options
from tests.certificates import Authority
from tests.postgres import TestDatabase
from tests.stacks import CALL_LIMIT, QUICK_JOBS, QUICK_WORKER, SERVING, START_LIMIT, prepared
from tests.tokens import identity_settings, token
from tests.waiting import eventually

TENANT: Final = TenantId("acme")
JOBS_NAME: Final = "jobs.hourglass"
"""In JobService's certificate: by it the others know who calls."""
STOP_LIMIT: Final = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuredStack:
    """Where the processes answer (host:port), what a caller needs to trust them, and where they log."""

    jobs: str
    pricing: str
    worker: str
    authority: Authority
    logs: Path

    def client(self, scope: str) -> AsyncClient:
        """A user of the tenant, by a token with these scopes."""
        tls = TlsFiles(authorities=self.authority.file)
        return AsyncClient.connect(self.jobs, tls=tls, token=token(tenant=TENANT, scope=scope))

    def requests(self, process: str) -> Sequence[Mapping[str, Any]]:
        """The request lines that a process has logged."""
        lines = (self.logs / f"{process}.log").read_text().splitlines()
        said = [json.loads(line) for line in lines if line.startswith("{")]
        return [line for line in said if line["event"] == "request"]


@asynccontextmanager
async def secured_stack(
    database: TestDatabase, authority: Authority, *, worker: Mapping[str, str]
) -> AsyncIterator[SecuredStack]:
    """A model server, PricingService, a worker and JobService. `worker` adds settings."""
    logs = authority.folder / "logs"
    budget = Budget.for_work(START_LIMIT)
    dsn = prepared(database).dsn
    async with AsyncExitStack() as stack:
        start = partial(_started, stack, logs=logs, budget=budget)
        model = await start(components.model_server(SIMULATED))
        pricing = await start(components.pricing_service("pricing", _inner(authority, "pricing", "read")))
        runs = await start(
            components.worker(
                "worker",
                {**QUICK_WORKER, **_inner(authority, "worker", "read", "read-content", "write"), **worker},
                database=dsn(WORKER),
                models={SIMULATED: model},
            )
        )
        await seed_tenant(dsn(REQUEST), TENANT, budget=budget)
        jobs = await start(
            components.jobs_service(
                "jobs",
                {**QUICK_JOBS, **_outer(authority)},
                database=dsn(REQUEST),
                reaper_database=dsn(WORKER),
                readonly_database=dsn(READONLY),
                pricing=pricing,
                workers=[runs],
            )
        )
        shown = authority.credentials(authority.issue(JOBS_NAME))
        for address in (pricing, runs, jobs):
            await eventually(partial(_is_ready, address, shown), within=START_LIMIT)
        yield SecuredStack(jobs=jobs, pricing=pricing, worker=runs, authority=authority, logs=logs)


def _inner(authority: Authority, name: str, *scopes: str) -> Mapping[str, str]:
    """Of a process that demands certificates, and answers JobService alone."""
    service = {"name": "jobs", "certificates": [JOBS_NAME], "scopes": scopes}
    return {
        **_settings(authority.server(name), identity_settings(authority.folder)),
        "TLS_CLIENT_CA_FILE": str(authority.file),
        "SERVICES": json.dumps([service]),
    }


def _outer(authority: Authority) -> Mapping[str, str]:
    """Of JobService: TLS and tokens towards callers, its own certificate towards the others."""
    certificate, key = authority.pair("jobs-peer", JOBS_NAME)
    peer = {"peer_ca_file": authority.file, "peer_certificate_file": certificate, "peer_key_file": key}
    return _settings(authority.server("jobs"), identity_settings(authority.folder), peer)


def _settings(*parts: Mapping[str, Any]) -> Mapping[str, str]:
    return {name.upper(): str(value) for part in parts for name, value in part.items()}


async def _started(stack: AsyncExitStack, command: Command, *, logs: Path, budget: Budget) -> str:
    child = await Child.start(command, logs=logs, budget=budget)
    stack.push_async_callback(_stopped, child)
    return child.address


async def _stopped(child: Child) -> None:
    exit_code = await child.stop(budget=Budget.for_work(STOP_LIMIT))
    assert 0 == exit_code, child.ending(exit_code)


async def _is_ready(address: str, credentials: grpc.ChannelCredentials) -> bool:
    async with grpc.aio.secure_channel(address, credentials, options=client_options()) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        request = health_pb2.HealthCheckRequest(service=READINESS)
        answer = await stub.Check(request, timeout=CALL_LIMIT, wait_for_ready=True)
    return bool(answer.status == SERVING)
