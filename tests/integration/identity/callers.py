"""A JobService that knows its callers, and callers who prove who they are."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from hourglass.jobs.v1 import admin_service_pb2 as admin_pb
from hourglass.jobs.v1 import job_pb2
from hourglass.jobs.v1 import jobs_service_pb2 as pb
from servicekit.wire_money import money_of
from tests.jobs import Jobs, jobs_server, pricing_server, spec
from tests.postgres import TestDatabase
from tests.tokens import bearer, identity_settings, token

LIMIT = 20.0
EVERYTHING = ("read", "read-content", "write")
EDGE = {"name": "edge", "subjects": ["system:edge"], "scopes": list(EVERYTHING)}
ADMIN = "read read-content write admin"

Metadata = tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class Known:
    """The service, and what its callers send."""

    jobs: Jobs

    async def ask(self, name: str, request: Any, metadata: Metadata = ()) -> Any:
        """One call of JobService that answers once."""
        return await getattr(self.jobs.jobs, name)(request, timeout=LIMIT, metadata=metadata)

    async def administer(self, name: str, request: Any, metadata: Metadata | None = None) -> Any:
        """One call of AdminService, as an operator."""
        sent = bearer(token(tenant="ops", scope=ADMIN)) if metadata is None else metadata
        return await getattr(self.jobs.admin, name)(request, timeout=LIMIT, metadata=sent)

    async def tenant(self, tenant: str) -> None:
        """A tenant with ten dollars."""
        await self.administer(
            "CreateTenant", admin_pb.CreateTenantRequest(tenant_id=tenant, request_id="make", reason="test")
        )
        await self.administer(
            "FundTenant",
            admin_pb.FundTenantRequest(
                tenant_id=tenant, amount=money_of(Decimal(10)), request_id="fund", reason="test"
            ),
        )

    async def key(
        self, tenant: str, scopes: Sequence[str] = EVERYTHING, *, request_id: str = "key", **fields: Any
    ) -> admin_pb.CreateApiKeyResponse:
        """A fresh API key."""
        request = admin_pb.CreateApiKeyRequest(
            tenant_id=tenant, user_id="batch", scopes=scopes, request_id=request_id, reason="test", **fields
        )
        made: admin_pb.CreateApiKeyResponse = await self.administer("CreateApiKey", request)
        return made

    async def create(self, metadata: Metadata, key: str = "first") -> job_pb2.Job:
        """A queued job."""
        request = pb.CreateJobRequest(idempotency_key=key, spec=spec())
        answer: pb.CreateJobResponse = await self.ask("CreateJob", request, metadata)
        return answer.job

    async def events(self, request: pb.WatchJobRequest, metadata: Metadata) -> list[Any]:
        """The events of a watch that ends by itself."""
        call = self.jobs.jobs.WatchJob(request, timeout=LIMIT, metadata=metadata)
        return [answer.event async for answer in call if answer.HasField("event")]


@asynccontextmanager
async def knowing(database: TestDatabase, folder: Path, **settings: Any) -> AsyncIterator[Known]:
    """JobService that takes tokens, API keys and the edge; the tenants acme and zeta have money."""
    given = {**identity_settings(folder), "api_keys": True, "services": [EDGE], **settings}
    async with pricing_server() as pricing, jobs_server(database, pricing=pricing, **given) as jobs:
        known = Known(jobs=jobs)
        for tenant in ("acme", "zeta"):
            await known.tenant(tenant)
        yield known
