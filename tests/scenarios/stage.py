"""JobService between misbehaving networks: a proxy before PricingService and one before Postgres."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import asyncpg
import grpc

from budget.ledger import ParsedLedger, parse_text
from hourglass.budget.v1.ledger_pb2 import BudgetLedger
from hourglass.jobs.v1 import jobs_service_pb2 as pb
from servicekit.wire_ledger import BINARY_TRAILER, TEXT_TRAILER
from tests.chaos_proxy import ChaosProxy
from tests.jobs import TENANT, Failure, Jobs, failure_of, jobs_server, of, spec
from tests.postgres import TestDatabase
from tests.pricing_double import PricingDouble, pricing_double
from tests.proxied import proxy_to, through

FUNDS = Decimal(100)
POLICIES = '{"postgres": {"limit": 5}, "pricing": {"limit": 0.5}}'
"""As in production for pricing; SQL has the time that a busy machine may need."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A running JobService and what stands between it and its dependencies."""

    jobs: Jobs
    pricing: PricingDouble
    to_pricing: ChaosProxy
    to_postgres: ChaosProxy

    def create(self, key: str, *, timeout: float | None = 2.0, **fields: Any) -> Any:
        """A CreateJob, not awaited yet."""
        request = pb.CreateJobRequest(
            idempotency_key=key, quote_id=fields.pop("quote_id", ""), spec=spec(**fields)
        )
        return self.jobs.jobs.CreateJob(request, timeout=timeout, metadata=of(TENANT))

    async def sessions(self) -> Sequence[asyncpg.Record]:
        """What Postgres says of the connections of the request path."""
        return await self.jobs.sql(
            "SELECT pid, state, query, query_start, wait_event_type FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name = 'hourglass-jobs' ORDER BY pid"
        )

    async def active(self) -> int:
        """Connections of the request path that are not idle."""
        return sum(session["state"] != "idle" for session in await self.sessions())

    def pool_is_whole(self) -> bool:
        """Nothing is lent, nobody waits."""
        database = self.jobs.app.databases.request
        return (0, 0) == (database.in_use, database.waiting)

    async def assert_money_agrees(self) -> None:
        """Each job has its reservation, and the funds are what the reservations say."""
        (row,) = await self.jobs.sql(
            """
            SELECT f.funded = f.available + f.reserved + f.captured AS conserved, f.reserved,
                   (SELECT coalesce(sum(amount), 0) FROM hourglass.reservations
                    WHERE settle_time IS NULL AND tenant_id = $1) AS open,
                   (SELECT count(*) FROM hourglass.reservations) AS reservations,
                   (SELECT count(*) FROM hourglass.job_facts) AS jobs,
                   (SELECT count(*) FROM hourglass.idempotency_keys) AS keys
            FROM hourglass.tenant_funds f WHERE f.tenant_id = $1
            """,
            TENANT,
        )
        assert row["conserved"]
        assert row["open"] == row["reserved"]
        assert row["jobs"] == row["reservations"] == row["keys"]


@asynccontextmanager
async def staged(database: TestDatabase, **settings: Any) -> AsyncIterator[Stage]:
    """A stage over a fresh database; the tenant `demo` has money. `settings` are those of JobsSettings."""
    async with (
        pricing_double() as (pricing, address),
        ChaosProxy.to_tcp("127.0.0.1", int(address.rpartition(":")[2])) as to_pricing,
        proxy_to(database.request) as to_postgres,
        jobs_server(
            database,
            pricing=f"127.0.0.1:{to_pricing.port}",
            **{
                "database_url": through(to_postgres, database.request),
                "listen_database_url": database.request,
                "policies": POLICIES,
                **settings,
            },
        ) as jobs,
    ):
        await jobs.fund(TENANT, FUNDS)
        yield Stage(jobs=jobs, pricing=pricing, to_pricing=to_pricing, to_postgres=to_postgres)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """How a call ended and where its time went. `failure` is None after a success."""

    failure: Failure | None
    answer: Any
    ledger: ParsedLedger
    binary: BudgetLedger

    @property
    def reason(self) -> str:
        """The ErrorInfo's reason; empty for a success and for what core answered in our place."""
        return "" if self.failure is None else self.failure.reason

    @property
    def ours(self) -> bool:
        """Whether it is JobService that answered: a success, or a status with its ErrorInfo."""
        return self.failure is None or bool(self.failure.reason)

    @property
    def spends(self) -> list[tuple[str, str]]:
        """Each call of a dependency and its outcome, in order."""
        return [(f"{spend.dependency}/{spend.method}", spend.outcome.value) for spend in self.ledger.spends]


async def told(call: Any) -> Told:
    """The end of a call, which may be a failure."""
    try:
        answer = await call
    except grpc.aio.AioRpcError as error:
        failed = failure_of(error)
        return _told(failed, None, failed.trailers)
    return _told(None, answer, dict(await call.trailing_metadata()))


def _told(failed: Failure | None, answer: Any, trailers: dict[str, Any]) -> Told:
    return Told(
        failure=failed,
        answer=answer,
        ledger=parse_text(str(trailers.get(TEXT_TRAILER, ""))),
        binary=BudgetLedger.FromString(bytes(trailers.get(BINARY_TRAILER, b""))),
    )
