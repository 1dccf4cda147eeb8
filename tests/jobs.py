"""JobService as tests drive it: real Postgres, real PricingService, real sockets, all in one process."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import asyncpg
import grpc
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo
from google.rpc.status_pb2 import Status

from hourglass.jobs.v1 import admin_service_pb2 as admin_pb
from hourglass.jobs.v1 import job_pb2
from hourglass.jobs.v1 import jobs_service_pb2 as pb
from hourglass.jobs.v1.admin_service_pb2_grpc import AdminServiceStub
from hourglass.jobs.v1.jobs_service_pb2_grpc import JobServiceStub
from jobs_service.app import JobsApp
from jobs_service.settings import JobsSettings
from pricing_service.app import build_server, build_service
from pricing_service.settings import PricingSettings
from servicekit.call import Authenticate
from servicekit.channels import client_options
from servicekit.wire_money import money_of
from tests.postgres import TestDatabase
from tests.waiting import eventually

MODEL = "simulated-fast"
TENANT = "demo"
PATIENT = '{"postgres": {"limit": 20}, "pricing": {"limit": 20}}'
"""Policies for a busy machine: no test of these waits for a limit, unless it says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """How a call failed."""

    code: grpc.StatusCode
    reason: str
    message: str
    metadata: dict[str, str]
    violations: dict[str, str]
    trailers: dict[str, str | bytes]

    @property
    def kind(self) -> tuple[grpc.StatusCode, str]:
        """What a program switches on."""
        return self.code, self.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs:
    """A running JobService, its stubs, and its database."""

    app: JobsApp
    address: str
    jobs: Any
    admin: Any
    database: TestDatabase

    async def fund(self, tenant: str, amount: Decimal) -> None:
        """Make a tenant with this much money."""
        await self.admin.CreateTenant(
            admin_pb.CreateTenantRequest(tenant_id=tenant, request_id="make", reason="test"), timeout=20
        )
        if amount:
            await self.admin.FundTenant(
                admin_pb.FundTenantRequest(
                    tenant_id=tenant, amount=money_of(amount), request_id="fund", reason="test"
                ),
                timeout=20,
            )

    async def create(
        self, key: str, *, tenant: str = TENANT, timeout: float = 10, **fields: Any
    ) -> pb.CreateJobResponse:
        """Create a job from `spec(**fields)`."""
        quote_id = fields.pop("quote_id", "")
        request = pb.CreateJobRequest(idempotency_key=key, spec=spec(**fields), quote_id=quote_id)
        answer: pb.CreateJobResponse = await self.jobs.CreateJob(
            request, timeout=timeout, metadata=of(tenant)
        )
        return answer

    async def sql(self, statement: str, *arguments: object) -> list[asyncpg.Record]:
        """Rows, as the owner of the database sees them."""
        connection = await asyncpg.connect(self.database.owner)
        try:
            return list(await connection.fetch(statement, *arguments))
        finally:
            await connection.close()

    async def count(self, table: str) -> int:
        """How many rows a table has."""
        return int((await self.sql(f"SELECT count(*) FROM hourglass.{table}"))[0][0])


def of(tenant: str, user: str = "ann") -> tuple[tuple[str, str], ...]:
    """The metadata of a tenant's user."""
    return (("x-tenant-id", tenant), ("x-user-id", user))


def message(text: str = "Say hello.", role: job_pb2.Role.ValueType = job_pb2.ROLE_USER) -> job_pb2.Message:
    """One message."""
    return job_pb2.Message(role=role, content=text)


def spec(text: str = "Say hello.", **fields: Any) -> job_pb2.JobSpec:
    """A small job, with `fields`."""
    return job_pb2.JobSpec(**{"model": MODEL, "messages": [message(text)], **fields})


def seconds(amount: float) -> Duration:
    """A duration."""
    duration = Duration()
    duration.FromNanoseconds(round(amount * 1e9))
    return duration


async def failure(call: Any) -> Failure:
    """How a call, which has to fail, failed."""
    try:
        answer = await call
    except grpc.aio.AioRpcError as error:
        return failure_of(error)
    raise AssertionError(f"it succeeded: {answer}")


def failure_of(error: grpc.aio.AioRpcError) -> Failure:
    """A failure in its parts."""
    info, bad = ErrorInfo(), BadRequest()
    trailers = dict(error.trailing_metadata() or ())
    for detail in Status.FromString(trailers.get("grpc-status-details-bin", b"")).details:
        detail.Unpack(info)
        detail.Unpack(bad)
    return Failure(
        code=error.code(),
        reason=info.reason,
        message=error.details() or "",
        metadata=dict(info.metadata),
        violations={violation.field: violation.description for violation in bad.field_violations},
        trailers=trailers,
    )


@asynccontextmanager
async def pricing_server() -> AsyncIterator[str]:
    """A real PricingService; its address."""
    settings = PricingSettings(listen="127.0.0.1:0")
    async with build_server(settings, build_service(settings)).serving({}) as server:
        server.health.set_ready(True)
        yield server.address


@asynccontextmanager
async def jobs_server(
    database: TestDatabase,
    *,
    pricing: str,
    authenticate: Authenticate | None = None,
    **settings: Any,
) -> AsyncIterator[Jobs]:
    """A real JobService over a database, ready; `settings` are those of JobsSettings."""
    given: dict[str, Any] = {
        "listen": "127.0.0.1:0",
        "database_url": database.request,
        "worker_database_url": database.worker,
        "readonly_database_url": database.readonly,
        "pricing_target": pricing,
        "policies": PATIENT,
        "drain_grace": 1.0,
        **settings,
    }
    app = JobsApp(JobsSettings(**given), authenticate=authenticate)
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(app.serving())
        channel = await stack.enter_async_context(
            grpc.aio.insecure_channel(server.address, options=client_options())
        )
        await eventually(lambda: server.health.ready, within=20)
        yield Jobs(
            app=app,
            address=server.address,
            jobs=JobServiceStub(channel),
            admin=AdminServiceStub(channel),
            database=database,
        )
