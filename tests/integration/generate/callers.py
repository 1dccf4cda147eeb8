"""Short calls over every hop, and what became of each: at the caller, in the database, at the provider."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import grpc

from hourglass.jobs.v1 import jobs_service_pb2 as pb
from jobs_service.domain.spec import estimate_of
from jobs_store.rate_card import RateCard, Usage
from tests.chaos_proxy import ChaosProxy
from tests.jobs import Failure, Jobs, failure_of, jobs_server, message, of, pricing_server
from tests.model_server import request_of, requests_seen
from tests.waiting import eventually
from wire.rate_card import rate_card_of
from worker.app import Worker, working
from worker.providers.routes import ProviderRoute
from worker.settings import WorkerSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.postgres import TestDatabase

TENANT = "demo"
FUNDS = Decimal(10)
PROMPT = "Say hello."
NOTHING = Decimal(0)


@dataclass(slots=True)
class Heard:
    """What a caller got."""

    messages: list[pb.GenerateResponse] = field(default_factory=list)
    failure: Failure | None = None

    @property
    def call_id(self) -> str:
        """The call's id."""
        return self.messages[0].started.call_id

    @property
    def text(self) -> str:
        """The answer."""
        return "".join(m.token_delta.text for m in self.messages if m.HasField("token_delta"))

    @property
    def tokens(self) -> int:
        """Tokens that arrived."""
        return sum(m.token_delta.token_count for m in self.messages if m.HasField("token_delta"))

    @property
    def finished(self) -> pb.GenerateFinished:
        """The last message."""
        assert self.messages[-1].HasField("finished"), self
        return self.messages[-1].finished

    @property
    def kind(self) -> tuple[grpc.StatusCode, str]:
        """How it failed."""
        assert self.failure is not None, self
        return self.failure.kind


@dataclass(kw_only=True)
class Callers:
    """A JobService, a worker and the simulated provider, each behind its own socket."""

    jobs: Jobs
    worker: Worker
    provider: str
    proxy: ChaosProxy | None = None

    def call(
        self, model: str, *, timeout: float | None = 20.0, tenant: str = TENANT, **fields: Any
    ) -> grpc.aio.UnaryStreamCall[pb.GenerateRequest, pb.GenerateResponse]:
        """One Generate, not read yet."""
        request = pb.GenerateRequest(
            **{"model": model, "messages": [message(PROMPT)], "max_output_token_count": 64, **fields}
        )
        stream: grpc.aio.UnaryStreamCall[pb.GenerateRequest, pb.GenerateResponse] = self.jobs.jobs.Generate(
            request, timeout=timeout, metadata=of(tenant)
        )
        return stream

    async def generate(self, model: str, **fields: Any) -> Heard:
        """One Generate, to its end."""
        return await heard(self.call(model, **fields))

    async def row(self, call_id: str) -> dict[str, Any]:
        """The call's row."""
        (row,) = await self.jobs.sql("SELECT * FROM hourglass.calls WHERE id = $1::text::uuid", call_id)
        return dict(row)

    async def settled(self, call_id: str, *, within: float = 10.0) -> dict[str, Any]:
        """The call's row once it is settled."""

        async def row() -> dict[str, Any] | None:
            found = await self.row(call_id)
            return found if found["settle_time"] is not None else None

        found: dict[str, Any] | None = await eventually(row, within=within)
        assert found is not None
        return found

    async def funds(self, tenant: str = TENANT) -> tuple[Decimal, Decimal, Decimal]:
        """Available, reserved, captured, in one look; they add up to what was funded."""
        (row,) = await self.jobs.sql("SELECT * FROM hourglass.tenant_funds WHERE tenant_id = $1", tenant)
        assert row["funded"] == row["available"] + row["reserved"] + row["captured"]
        return row["available"], row["reserved"], row["captured"]

    async def rate_card(self, model: str) -> RateCard:
        """What the tenant is charged by."""
        quote = await self.jobs.jobs.Quote(
            pb.QuoteRequest(models=[model], messages=[message(PROMPT)]), timeout=10, metadata=of(TENANT)
        )
        return rate_card_of(quote.lines[0].rate_card)

    async def charge_of(self, model: str, tokens: int) -> Decimal:
        """What so many delivered tokens cost a caller who leaves."""
        if tokens == 0:
            return NOTHING
        usage = Usage(input_tokens=estimate_of([PROMPT]), output_tokens=tokens)
        return (await self.rate_card(model)).amount(usage)

    async def seen(self, call_id: str) -> dict[str, Any] | None:
        """What the provider saw of a call."""
        return await request_of(self.provider, call_id)

    async def all_seen(self, model: str) -> list[dict[str, Any]]:
        """Every request for a model that the provider saw."""
        seen = await asyncio.to_thread(requests_seen, self.provider)
        return [request for request in seen["requests"] if request["model"] == model]


async def heard(stream: Any) -> Heard:
    """Reads a stream to its end."""
    found = Heard()
    try:
        while (received := await stream.read()) is not grpc.aio.EOF:
            found.messages.append(received)
    except grpc.aio.AioRpcError as error:
        found.failure = failure_of(error)
    return found


async def started(stream: Any) -> Heard:
    """Reads a stream's first message."""
    received = await stream.read()
    assert received.HasField("started"), received
    return Heard(messages=[received])


async def first(stream: Any, tokens: int) -> Heard:
    """Reads a stream until so many tokens have come."""
    found = Heard()
    while found.tokens < tokens:
        received = await stream.read()
        assert received is not grpc.aio.EOF, found
        found.messages.append(received)
    return found


def worker_settings(database: TestDatabase, provider: str, **changed: Any) -> WorkerSettings:
    """A worker that serves short calls, and takes its time with everything else."""
    route: dict[str, Any] = {
        "name": "simulated",
        "models": ("simulated*",),
        "base_url": f"{provider}/v1",
        "connect": 1.0,
        "first_token": 10.0,
        "between_tokens": 10.0,
        **changed.pop("route", {}),
    }
    values: dict[str, Any] = {
        "listen": "127.0.0.1:0",
        "database_url": database.worker,
        "name": "worker-1",
        "routes": (ProviderRoute(**route),),
        "wake_ups": False,
        "reap_interval": 60.0,
        "drain_grace": 2.0,
        **changed,
    }
    return WorkerSettings(**values)


@asynccontextmanager
async def open_callers(
    database: TestDatabase,
    provider: str,
    *,
    worker: dict[str, Any] | None = None,
    proxied: bool = False,
    **jobs: Any,
) -> AsyncIterator[Callers]:
    """Everything, ready. `worker`: changed settings of the worker; `proxied`: there is a proxy before it."""
    async with AsyncExitStack() as stack:
        pricing = await stack.enter_async_context(pricing_server())
        settings = worker_settings(database, provider, **(worker or {}))
        running = await stack.enter_async_context(working(settings, asyncio.Event()))
        await eventually(lambda: running.server.health.ready, within=20)
        proxy, target = None, running.address
        if proxied:
            host, _, port = target.rpartition(":")
            proxy = await stack.enter_async_context(ChaosProxy.to_tcp(host, int(port)))
            target = f"127.0.0.1:{proxy.port}"
        settings_of_jobs = {
            "workers_target": target,
            "generate_first_token": 0.0,
            "generate_tokens_per_second": 1e6,
            **jobs,
        }
        serving = await stack.enter_async_context(jobs_server(database, pricing=pricing, **settings_of_jobs))
        await serving.fund(TENANT, FUNDS)
        yield Callers(jobs=serving, worker=running, provider=provider, proxy=proxy)
