"""Below a recorded span every call to a dependency leaves one client span, whatever its end; none a row."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace

import grpc.aio
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from budget import spans
from budget.core import Budget
from budget.errors import DatabaseTimeout, UpstreamError
from budget.grpc_client import CHANNEL_OPTIONS, call
from budget.policy import Policy
from budget.postgres import Database
from tests.postgres import TestDatabase

READ = Policy(dependency="postgres", method="read_job", limit=5.0)
PRICING = Policy(dependency="pricing", method="GetPrice", limit=5.0)


class Traces:
    """Records every span."""

    def __init__(self) -> None:
        self._exporter, provider = InMemorySpanExporter(), TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = provider.get_tracer("test")

    @contextmanager
    def request(self) -> Iterator[None]:
        """A span of a request, current in the block."""
        with self.tracer.start_as_current_span("request"):
            yield

    def ended(self) -> list[ReadableSpan]:
        """The client spans that have ended."""
        return [span for span in self._exporter.get_finished_spans() if span.kind is SpanKind.CLIENT]


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> Traces:
    """What the adapters record."""
    traces = Traces()
    monkeypatch.setattr(spans, "_tracer", traces.tracer)
    return traces


@pytest.fixture
async def db(empty_database: TestDatabase) -> AsyncIterator[Database]:
    opened = await Database.open(
        empty_database.owner, budget=Budget.for_work(10), size=1, application_name="under-test"
    )
    yield opened
    await opened.close(Budget.for_work(5))


async def test_a_transaction_is_one_span_however_many_rows_it_reads(db: Database, traces: Traces) -> None:
    with traces.request():
        async with db.transaction(Budget.for_work(5), READ) as transaction:
            await transaction.fetch("SELECT generate_series(1, 100)")
            await transaction.fetch("SELECT 1")
    (span,) = traces.ended()
    assert ("read_job", SpanKind.CLIENT) == (span.name, span.kind)
    assert {
        "db.system.name": "postgresql",
        "db.operation.name": "read_job",
        "hourglass.dependency": "postgres",
        "hourglass.attempt": 1,
    } == dict(span.attributes or {})
    assert StatusCode.UNSET is span.status.status_code


async def test_a_failed_statement_names_its_reason(db: Database, traces: Traces) -> None:
    with traces.request(), pytest.raises(DatabaseTimeout):
        await db.fetch(Budget.for_work(5), replace(READ, limit=0.2), "SELECT pg_sleep(5)")
    (span,) = traces.ended()
    assert (StatusCode.ERROR, "DATABASE_TIMEOUT") == (span.status.status_code, span.status.description)


async def test_a_caller_who_leaves_is_no_error_of_the_dependency(db: Database, traces: Traces) -> None:
    entered = asyncio.Event()

    async def leave() -> None:
        with traces.request():
            async with db.transaction(Budget.for_work(5), READ):
                entered.set()
                await asyncio.Event().wait()

    leaving = asyncio.ensure_future(leave())
    await entered.wait()
    leaving.cancel()
    await asyncio.wait({leaving})
    (span,) = traces.ended()
    assert StatusCode.UNSET is span.status.status_code
    assert True is (span.attributes or {})["hourglass.cancelled"]


async def test_a_refused_call_is_a_span_with_its_reason(traces: Traces) -> None:
    async with grpc.aio.insecure_channel("127.0.0.1:1", options=CHANNEL_OPTIONS) as nobody:
        with traces.request(), pytest.raises(UpstreamError):
            await call(
                nobody.unary_unary("/test.Callee/Unary"), b"", budget=Budget.for_work(5), policy=PRICING
            )
    (span,) = traces.ended()
    assert ("test.Callee/Unary", StatusCode.ERROR) == (span.name, span.status.status_code)
    assert {
        "rpc.system.name": "grpc",
        "rpc.method": "test.Callee/Unary",
        "rpc.response.status_code": "UNAVAILABLE",
        "error.type": "UNAVAILABLE",
        "server.address": "127.0.0.1",
        "server.port": 1,
        "hourglass.dependency": "pricing",
        "hourglass.attempt": 1,
        "hourglass.reason": "UNAVAILABLE",
    } == dict(span.attributes or {})


async def test_what_no_recorded_request_asked_for_leaves_no_span(db: Database, traces: Traces) -> None:
    await db.fetch(Budget.for_work(5), READ, "SELECT 1")
    assert [] == traces.ended()
