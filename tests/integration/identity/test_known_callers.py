"""What callers with tokens may do, over real sockets."""

import json
from typing import Any

import grpc
import pytest
import structlog
from grpc_health.v1 import health_pb2
from grpc_health.v1.health_pb2_grpc import HealthStub

from hourglass.jobs.v1 import admin_service_pb2 as admin_pb
from hourglass.jobs.v1 import event_pb2
from hourglass.jobs.v1 import jobs_service_pb2 as pb
from jobs_store.identifiers import new_job_id
from servicekit.channels import client_options
from tests.integration.identity.callers import ADMIN, Known
from tests.jobs import failure, spec
from tests.store import acceptance_of, deltas_of, failure_of, open_store, time_enough
from tests.tokens import bearer, token
from tests.waiting import eventually

READER = bearer(token(scope="read"))
WRITER = bearer(token(scope="write"))
USER = bearer(token())
UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED
DENIED = grpc.StatusCode.PERMISSION_DENIED


async def test_whoever_proves_nothing_is_told_how_and_health_answers_all_the_same(known: Known) -> None:
    for metadata in ((), (("x-tenant-id", "acme"),)):
        refused = await failure(known.ask("ListJobs", pb.ListJobsRequest(), metadata))
        assert (UNAUTHENTICATED, "MISSING_CREDENTIALS") == refused.kind
    refused = await failure(known.administer("ListLanes", admin_pb.ListLanesRequest(), ()))
    assert (UNAUTHENTICATED, "MISSING_CREDENTIALS") == refused.kind
    async with grpc.aio.insecure_channel(known.jobs.address, options=client_options()) as channel:
        health: Any = HealthStub(channel)
        answer = await health.Check(health_pb2.HealthCheckRequest(), timeout=5)
    assert health_pb2.HealthCheckResponse.SERVING == answer.status


async def test_a_method_that_is_not_there_is_told_to_known_callers_only(known: Known) -> None:
    async with grpc.aio.insecure_channel(known.jobs.address, options=client_options()) as channel:
        method: Any = channel.unary_unary("/hourglass.jobs.v1.JobService/DropAll")
        assert (UNAUTHENTICATED, "MISSING_CREDENTIALS") == (await failure(method(b"", timeout=5))).kind
        told = await failure(method(b"", timeout=5, metadata=READER))
    assert (grpc.StatusCode.UNIMPLEMENTED, "METHOD_NOT_FOUND") == told.kind


async def test_an_expired_token_and_a_tenant_in_the_metadata_have_reasons_of_their_own(known: Known) -> None:
    expired = await failure(known.ask("ListJobs", pb.ListJobsRequest(), bearer(token(lives=-60.0))))
    assert (UNAUTHENTICATED, "TOKEN_EXPIRED") == expired.kind
    speaking = await failure(
        known.ask("ListJobs", pb.ListJobsRequest(), bearer(token(), ("x-tenant-id", "zeta")))
    )
    assert (DENIED, "DELEGATION_REFUSED") == speaking.kind
    assert {"header": "x-tenant-id"} == speaking.metadata


async def test_the_edge_speaks_for_a_tenant_and_its_user(known: Known) -> None:
    edge = bearer(
        token(user="system:edge", without=("tenant",)), ("x-tenant-id", "zeta"), ("x-user-id", "eve")
    )
    job = await known.create(edge)
    assert "eve" == job.principal
    zeta = bearer(token(tenant="zeta", scope="read"))
    assert job.job_id == (await known.ask("GetJob", pb.GetJobRequest(job_id=job.job_id), zeta)).job.job_id
    read_only = (*edge, ("x-scopes", "read"))
    refused = await failure(known.ask("CancelJob", pb.CancelJobRequest(job_id=job.job_id), read_only))
    assert (DENIED, "SCOPE_MISSING") == refused.kind


async def test_nobody_writes_by_reading_or_reads_by_writing(known: Known) -> None:
    request = pb.CreateJobRequest(idempotency_key="k", spec=spec())
    refused = await failure(known.ask("CreateJob", request, READER))
    assert ((DENIED, "SCOPE_MISSING"), {"scopes": "write"}) == (refused.kind, refused.metadata)
    job = await known.create(WRITER)
    refused = await failure(known.ask("GetJob", pb.GetJobRequest(job_id=job.job_id), WRITER))
    assert ((DENIED, "SCOPE_MISSING"), {"scopes": "read"}) == (refused.kind, refused.metadata)


async def test_only_operators_administer(known: Known) -> None:
    refused = await failure(known.administer("ListTenants", admin_pb.ListTenantsRequest(), USER))
    assert ((DENIED, "SCOPE_MISSING"), {"scopes": "admin"}) == (refused.kind, refused.metadata)
    verifying = known.jobs.admin.Verify(admin_pb.VerifyRequest(), timeout=5, metadata=USER)
    assert (DENIED, "SCOPE_MISSING") == (await failure(verifying.read())).kind
    assert await known.administer("ListTenants", admin_pb.ListTenantsRequest())


async def test_content_is_refused_by_name_before_anything_is_looked_up(known: Known) -> None:
    for name, request in (
        ("GetJob", pb.GetJobRequest(job_id=str(new_job_id()), include_content=True)),
        ("WaitJob", pb.WaitJobRequest(job_id=str(new_job_id()), include_content=True)),
    ):
        refused = await failure(known.ask(name, request, READER))
        assert (DENIED, "SCOPE_MISSING") == refused.kind
        assert {"scopes": "read-content", "field": "include_content"} == refused.metadata


async def test_a_reader_without_content_sees_states_and_no_text(known: Known) -> None:
    job = await known.create(USER)
    async with open_store(known.jobs.database) as store:
        await store.runs.register_lanes([job.lane], budget=time_enough())
        (run,) = await store.claim(1, lanes=[job.lane])
        await store.start(run)
        await store.runs.append([deltas_of(run, "secret ", "words")], budget=time_enough())
        await store.runs.finish([acceptance_of(run)], budget=time_enough())
    watch = pb.WatchJobRequest(job_id=job.job_id)
    whole = [event.WhichOneof("event") for event in await known.events(watch, USER)]
    events = await known.events(watch, READER)
    assert [kind for kind in whole if kind != "token_delta"] == [
        event.WhichOneof("event") for event in events
    ]
    assert "token_delta" in whole
    assert events[-1].state_changed.terminal
    assert "secret" not in str(events)
    by_name = pb.WatchJobRequest(job_id=job.job_id, kinds=[event_pb2.JOB_EVENT_KIND_TOKEN_DELTA])
    refused = await failure(known.events(by_name, READER))
    assert {"scopes": "read-content", "field": "kinds"} == refused.metadata
    shown = await known.ask("GetJob", pb.GetJobRequest(job_id=job.job_id, include_attempts=True), READER)
    assert not shown.job.HasField("spec")
    assert not shown.job.HasField("result")


async def test_a_providers_words_about_a_failure_are_content(known: Known) -> None:
    job = await known.create(USER)
    async with open_store(known.jobs.database) as store:
        await store.runs.register_lanes([job.lane], budget=time_enough())
        (run,) = await store.claim(1, lanes=[job.lane])
        await store.start(run)
        await store.runs.finish([failure_of(run)], budget=time_enough())
    request = pb.GetJobRequest(job_id=job.job_id, include_attempts=True)
    (full,) = (await known.ask("GetJob", request, USER)).job.attempts
    (bare,) = (await known.ask("GetJob", request, READER)).job.attempts
    assert (full.cause, full.error_class) == (bare.cause, bare.error_class)
    assert "" == bare.error_message


async def test_lines_say_who_called_and_how_that_was_known_and_never_by_what(known: Known) -> None:
    text, bad = token(user="quiet"), token(user="loud")[:-5]
    with structlog.testing.capture_logs() as logs:
        await known.ask("ListJobs", pb.ListJobsRequest(), bearer(text))
        await failure(known.ask("ListJobs", pb.ListJobsRequest(), bearer(bad)))
        await eventually(lambda: len([line for line in logs if line["event"] == "request"]) == 2, within=5.0)
    lines = [line for line in logs if line["event"] == "request"]
    assert ("acme", "quiet", "token") == tuple(
        lines[0][name] for name in ("tenant", "user", "authenticated_by")
    )
    assert ("", "", "") == tuple(lines[1][name] for name in ("tenant", "user", "authenticated_by"))
    assert "INVALID_TOKEN" == lines[1]["reason"]
    written = json.dumps(logs, default=repr)
    for secret in (text, bad, text.rpartition(".")[2], "earer ey"):
        assert secret not in written


@pytest.mark.parametrize("scope", ["admin", ADMIN])
async def test_an_operators_own_name_stands_in_the_record(known: Known, scope: str) -> None:
    metadata = bearer(token(tenant="ops", user="olga", scope=scope))
    request = admin_pb.CreateTenantRequest(tenant_id="third", request_id="third", reason="asked for")
    await known.administer("CreateTenant", request, metadata)
    rows = await known.jobs.sql("SELECT actor FROM hourglass.audit_log WHERE tenant_id = 'third'")
    assert ["olga"] == [row["actor"] for row in rows]
