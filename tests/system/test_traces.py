"""What a collector receives of a request that crosses three processes, and of a job across two attempts.

The stack runs as processes of its own that export over gRPC. The same run plants secrets wherever callers and
operators put some, lets things fail, and then looks for them in everything that left a process.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import grpc
import pytest

from hourglass.jobs.v1.job_pb2 import JobState, Message, Role
from hourglass.jobs.v1.jobs_service_pb2 import (
    CreateJobRequest,
    GenerateRequest,
    QuoteRequest,
)
from launcher import components
from launcher.roles import WORKER
from tests.otlp_collector import collecting, tree
from tests.stacks import CALL_LIMIT, Caller, calling, prepared, spec_of, stack_on
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tests.otlp_collector import Collector, Received
    from tests.postgres import TestDatabase

pytestmark = [pytest.mark.faults, pytest.mark.timeout(180)]

JOBS, PRICING, RUNS = "hourglass-jobs", "hourglass-pricing", "hourglass-worker"
PROMPT, BEARER, PROVIDER_KEY, PASSWORD = "plantedprompt", "plantedbearer", "plantedkey", "plantedpassword"
SECRETS = (PROMPT, BEARER, PROVIDER_KEY, PASSWORD)
CALLER_SPAN = "00f067aa0ba902b7"
QUOTED, CREATED, GENERATED = (f"{number:032x}" for number in (0xA1, 0xB2, 0xC3))
FAILS_ONCE = "simulated-fast:status=500,times=1,tokens=5"


def of_trace(trace_id: str) -> Sequence[tuple[str, str]]:
    """The metadata of a caller who is traced and has something to hide."""
    return (
        ("traceparent", f"00-{trace_id}-{CALLER_SPAN}-01"),
        ("authorization", f"Bearer {BEARER}"),
    )


def with_password(dsn: str) -> str:
    parts = urlsplit(dsn)
    user, _, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{user.partition(':')[0]}:{PASSWORD}@{host}"))


@pytest.fixture
def exporting(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Has every process that is started export to a collector."""

    def export(collector: Collector) -> None:
        for name, value in {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{collector.address}",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
            "OTEL_METRIC_EXPORT_INTERVAL": "500",
        }.items():
            monkeypatch.setenv(name, value)
        routes = {name: {**route, "api_key": PROVIDER_KEY} for name, route in components._ROUTES.items()}
        monkeypatch.setattr(components, "_ROUTES", routes)

    return export


async def test_a_collector_receives_requests_across_processes_and_jobs_across_attempts_and_no_secret(
    database: TestDatabase, tmp_path: Path, exporting: Any
) -> None:
    worker = {"DATABASE_URL": with_password(prepared(database).dsn(WORKER)), "BACKOFF_BASE": "0.1"}
    async with collecting() as collector:
        exporting(collector)
        async with stack_on(database, tmp_path / "logs", worker=worker) as stack:
            async with calling(stack.jobs) as caller:
                await quote(caller)
                job_id = await a_job_of_two_attempts(caller)
                await generate(caller)
                await fail_in_every_way(caller)
            await eventually(lambda: len(collector.metrics) > 30, within=10.0)
        # The processes have ended, and have sent what was left.
        (tmp_path / "trees.txt").write_text(drawn(collector))
        a_quote_is_one_trace_over_three_processes(collector)
        a_create_is_one_trace_over_two_processes(collector)
        attempts_link_to_the_request_that_made_the_job(collector, job_id)
        a_short_call_reaches_its_provider_in_the_callers_trace(collector)
        every_process_sent_metrics(collector)
        nothing_that_was_planted_is_anywhere(collector, tmp_path / "logs")


async def quote(caller: Caller) -> None:
    request = QuoteRequest(
        models=["simulated-fast"],
        messages=[Message(role=Role.ROLE_USER, content=PROMPT)],
        max_output_token_count=16,
    )
    await caller.stub.Quote(request, timeout=CALL_LIMIT, metadata=of_trace(QUOTED))


async def a_job_of_two_attempts(caller: Caller) -> str:
    request = CreateJobRequest(idempotency_key="traced", spec=spec_of(FAILS_ONCE, prompt=PROMPT))
    response = await caller.stub.CreateJob(request, timeout=CALL_LIMIT, metadata=of_trace(CREATED))
    job_id: str = response.job.job_id
    await caller.watch(job_id)
    job = await caller.get(job_id)
    assert (JobState.JOB_STATE_SUCCEEDED, 2) == (job.state, len(job.attempts))
    return job_id


async def generate(caller: Caller) -> None:
    stream = caller.stub.Generate(
        short("simulated-fast:tokens=5"), timeout=CALL_LIMIT, metadata=of_trace(GENERATED)
    )
    assert [message async for message in stream]


def short(model: str) -> GenerateRequest:
    return GenerateRequest(
        model=model,
        messages=[Message(role=Role.ROLE_USER, content=PROMPT)],
        max_output_token_count=16,
    )


async def fail_in_every_way(caller: Caller) -> None:
    """Refused by us, refused or broken off by the provider, out of time, given up, and a job that fails."""
    secretly = of_trace(f"{0xD4:032x}")
    bad = CreateJobRequest(
        idempotency_key="bad",
        spec=spec_of("no such model", prompt=PROMPT, max_output_token_count=0, labels={PROMPT: PROMPT * 99}),
    )
    with pytest.raises(grpc.aio.AioRpcError):
        await caller.stub.CreateJob(bad, timeout=CALL_LIMIT, metadata=secretly)
    for model in ("simulated-fast:status=400", "simulated-fast:reset_after=2", "simulated-fast:status=401"):
        with pytest.raises(grpc.aio.AioRpcError):
            async for _ in caller.stub.Generate(short(model), timeout=CALL_LIMIT, metadata=secretly):
                pass
    with pytest.raises(grpc.aio.AioRpcError):
        await caller.stub.CreateJob(
            CreateJobRequest(idempotency_key="late", spec=spec_of("simulated-fast", prompt=PROMPT)),
            timeout=0.002,
            metadata=secretly,
        )
    leaving = caller.stub.Generate(
        short("simulated-fast:stall_after=2"), timeout=CALL_LIMIT, metadata=secretly
    )
    await leaving.read()
    leaving.cancel()
    refused = await caller.create(spec_of("simulated-fast:status=400", prompt=PROMPT))
    await caller.watch(refused.job.job_id)


def a_quote_is_one_trace_over_three_processes(collector: Collector) -> None:
    spans = collector.trace(QUOTED)
    (root,) = (span for span in spans if span.parent_id == CALLER_SPAN)
    assert (JOBS, "SERVER", "hourglass.jobs.v1.JobService/Quote") == (root.service, root.kind, root.name)
    assert {
        "rpc.system.name": "grpc",
        "rpc.method": "hourglass.jobs.v1.JobService/Quote",
        "rpc.response.status_code": "OK",
        "hourglass.ending": "ok",
        "hourglass.tenant": "demo",
        "server.address": "127.0.0.1",
        "network.peer.address": "127.0.0.1",
    }.items() <= root.attributes.items()
    assert 4.9 < root.attributes["hourglass.budget.initial"] <= 5.0
    assert root.error is None
    price = below(spans, root, "hourglass.pricing.v1.PricingService/GetPrice", PRICING)
    below(spans, root, "hourglass.worker.v1.WorkerService/GetWorkerStatus", RUNS)
    assert 0.0 < price.attributes["hourglass.budget.initial"] < root.attributes["hourglass.budget.initial"]
    assert {"CLIENT"} == {span.kind for span in children(spans, root)}
    assert ["create_quote"] == [s.name for s in children(spans, root) if "db.system.name" in s.attributes]
    the_ledger_is_told(root, {"pricing", "worker", "postgres"})


def the_ledger_is_told(span: Received, dependencies: set[str]) -> None:
    assert dependencies == {event.attributes["hourglass.dependency"] for event in span.events}
    for event in span.events:
        assert "hourglass.budget.spend" == event.name
        assert 0 <= event.after <= span.end - span.start
        assert "ok" == event.attributes["hourglass.outcome"]
        assert event.attributes["hourglass.budget.took"] < event.attributes["hourglass.budget.remaining"]


def a_create_is_one_trace_over_two_processes(collector: Collector) -> None:
    spans = collector.trace(CREATED)
    (root,) = (span for span in spans if span.parent_id == CALLER_SPAN)
    below(spans, root, "hourglass.pricing.v1.PricingService/GetPrice", PRICING)
    assert {span.span_id for span in spans} >= {span.parent_id for span in spans} - {CALLER_SPAN}


def attempts_link_to_the_request_that_made_the_job(collector: Collector, job_id: str) -> None:
    (made,) = (span for span in collector.trace(CREATED) if span.parent_id == CALLER_SPAN)
    first, second = collector.linked_to(made)
    for number, attempt in enumerate((first, second), start=1):
        assert ("", RUNS, "CONSUMER") == (attempt.parent_id, attempt.service, attempt.kind)
        assert {
            "messaging.operation.type": "process",
            "messaging.message.id": job_id,
            "hourglass.attempt.number": number,
        }.items() <= attempt.attributes.items()
        names = [span.name for span in children(collector.trace(attempt.trace_id), attempt)]
        assert ["start", f"chat {FAILS_ONCE}"] == names[:2]
        assert names[2] in {"finish", "requeue"}
    assert 3 == len({made.trace_id, first.trace_id, second.trace_id})
    asked = [provider_call(collector.trace(attempt.trace_id)) for attempt in (first, second)]
    assert [True, False] == [call.error is not None for call in asked]
    assert {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "simulated",
        "gen_ai.request.model": FAILS_ONCE,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.response.finish_reasons": ["stop"],
    }.items() <= asked[1].attributes.items()
    assert [("failed", "SERVER_ERROR"), ("answered", None)] == [
        (a.attributes["hourglass.attempt.end"], a.error) for a in (first, second)
    ]


def a_short_call_reaches_its_provider_in_the_callers_trace(collector: Collector) -> None:
    spans = collector.trace(GENERATED)
    (root,) = (span for span in spans if span.parent_id == CALLER_SPAN)
    served = below(spans, root, "hourglass.worker.v1.WorkerService/Generate", RUNS)
    assert served.span_id == provider_call(spans).parent_id


def every_process_sent_metrics(collector: Collector) -> None:
    for service in (JOBS, PRICING, RUNS):
        assert (service, "rpc.server.call.duration") in collector.metrics


def nothing_that_was_planted_is_anywhere(collector: Collector, logs: Path) -> None:
    texts: Mapping[str, str] = {
        "telemetry": "".join(collector.text),
        **{path.name: path.read_text() for path in logs.iterdir() if path.is_file()},
    }
    assert {"telemetry"} < texts.keys()
    assert [] == [
        (name, *re.findall(f".{{0,80}}{secret}.{{0,80}}", text)[:1])
        for name, text in texts.items()
        for secret in SECRETS
        if secret in text
    ]


def below(spans: Sequence[Received], above: Received, name: str, service: str) -> Received:
    """The server's span of a call: a child of the client's span, which is a child of `above`."""
    (client,) = (span for span in children(spans, above) if span.name == name)
    (server,) = children(spans, client)
    assert ("CLIENT", above.service) == (client.kind, client.service)
    assert ("SERVER", service, name) == (server.kind, server.service, server.name)
    assert "OK" == client.attributes["rpc.response.status_code"]
    return server


def children(spans: Sequence[Received], above: Received) -> list[Received]:
    return [span for span in spans if span.parent_id == above.span_id]


def provider_call(spans: Sequence[Received]) -> Received:
    (call,) = (span for span in spans if "gen_ai.operation.name" in span.attributes)
    return call


def drawn(collector: Collector) -> str:
    """The trees of docs/tracing.md."""
    (made,) = (span for span in collector.trace(CREATED) if span.parent_id == CALLER_SPAN)
    traces = [QUOTED, CREATED, *(span.trace_id for span in collector.linked_to(made)), GENERATED]
    return "\n\n".join(tree(collector.trace(trace_id)) for trace_id in traces)
