"""The stack with everything that a network asks for, in processes of their own: calls get through it, from
the caller to the model and back, and nobody gets past it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from hourglass.jobs.v1 import jobs_service_pb2 as pb
from hourglass.jobs.v1.job_pb2 import Job, JobState, Message, Role
from hourglass.pricing.v1 import pricing_service_pb2 as pricing_pb
from hourglass.pricing.v1.pricing_service_pb2_grpc import PricingServiceStub
from hourglass.worker.v1 import worker_service_pb2 as worker_pb
from hourglass.worker.v1.worker_service_pb2_grpc import WorkerServiceStub
from hourglass_client import AsyncClient
from servicekit.channels import client_options
from tests.certificates import Authority
from tests.cli import Jobsctl
from tests.jobs import failure
from tests.postgres import TestDatabase
from tests.secured_stacks import TENANT, SecuredStack, secured_stack
from tests.stacks import spec_of
from tests.tokens import bearer, token
from tests.unit.deploy.described import of_kind, rendered
from tests.waiting import eventually

pytestmark = [pytest.mark.faults, pytest.mark.timeout(120)]

SLOW = "simulated:tokens=60,tps=30"
NEVER_DURABLE = {"FLUSH_INTERVAL": "60"}
"""Token text is in the store only once the run has ended: whoever sees it before has it from the worker."""
EXAMPLE = "overlays/example"
CALL_LIMIT = 10.0
WATCH_LIMIT = 30.0
JOB = "01a22d49-b7d7-7075-b32c-ecffb9470433"
SHORT = pb.GenerateRequest(
    model="simulated-fast",
    messages=[Message(role=Role.ROLE_USER, content="Say something.")],
    max_output_token_count=8,
)


async def test_a_job_and_a_short_call_go_through_and_nobody_goes_past_job_service(
    database: TestDatabase, authority: Authority
) -> None:
    async with secured_stack(database, authority, worker=NEVER_DURABLE) as stack:
        async with stack.client("read read-content write") as owner, stack.client("read") as reader:
            job_id = (await owner.create(spec_of(SLOW), timeout=CALL_LIMIT)).job.job_id
            (text, then), kinds = await asyncio.gather(_watched(owner, job_id), _kinds(reader, job_id))
            ended = await owner.wait(job_id, content=True)
            said = await _generated(owner)
        assert JobState.JOB_STATE_RUNNING == then.state, "its text came before it was stored"
        assert (JobState.JOB_STATE_SUCCEEDED, text) == (ended.state, ended.result.text)
        assert text
        assert ("started", "finished", True) == (said[0], said[-1], "token_delta" in said)
        assert ("state_changed", False) == (kinds[-1], "token_delta" in kinds)
        await eventually(lambda: _the_hops_were_by_certificate(stack))
        await _nobody_goes_past(stack)
        await _the_daily_verification_gets_in(stack)


async def _watched(client: AsyncClient, job_id: str) -> tuple[str, Job]:
    """The text that was read live, and the job as it was when its first piece came."""
    then = Job()
    async with client.watch(job_id, timeout=WATCH_LIMIT) as events:
        async for event in events:
            if event.HasField("token_delta") and not then.job_id:
                then = await client.get(job_id)
    return events.text, then


async def _kinds(client: AsyncClient, job_id: str) -> list[str | None]:
    async with client.watch(job_id, timeout=WATCH_LIMIT) as events:
        return [event.WhichOneof("event") async for event in events]


async def _generated(client: AsyncClient) -> list[str | None]:
    async with client.generate(SHORT, timeout=CALL_LIMIT) as messages:
        return [message.WhichOneof("message") async for message in messages]


def _the_hops_were_by_certificate(stack: SecuredStack) -> bool:
    """Whether the lines of both inner processes name JobService, by its certificate, for the tenant."""
    lines = [*stack.requests("worker"), *stack.requests("pricing")]
    known = {
        line["method"].rpartition("/")[2]
        for line in lines
        if (line["authenticated_by"], line["code"]) == ("service:jobs", "OK")
    }
    return {"StreamProgress", "Generate", "GetPrice"} <= known


async def _nobody_goes_past(stack: SecuredStack) -> None:
    """Straight to the worker and to PricingService, with whatever somebody may have who is not JobService."""
    authority = stack.authority
    stranger = authority.credentials(authority.issue("other.hourglass"))
    user = bearer(token(tenant=TENANT, scope="read read-content write admin"))
    for_tenant = (("x-tenant-id", str(TENANT)),)
    for credentials, metadata, code, reason in (
        (authority.credentials(), user, grpc.StatusCode.UNAVAILABLE, ""),
        (stranger, (), grpc.StatusCode.UNAUTHENTICATED, "UNKNOWN_SERVICE"),
        (stranger, for_tenant, grpc.StatusCode.UNAUTHENTICATED, "UNKNOWN_SERVICE"),
        (stranger, user, grpc.StatusCode.PERMISSION_DENIED, "SERVICES_ONLY"),
    ):
        async for name, call in _calls(stack, credentials, metadata):
            assert (code, reason) == (await failure(call)).kind, name


async def _the_daily_verification_gets_in(stack: SecuredStack) -> None:
    """With the variables of its CronJob."""
    pod = of_kind(rendered(EXAMPLE), "CronJob")["verify"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    operator = stack.authority.folder / "operator"
    operator.write_text(token(tenant="ops", user="verify", scope="admin"))
    here = {
        "JOBSCTL_SERVER": stack.jobs,
        "JOBSCTL_TLS_CA": str(stack.authority.file),
        "JOBSCTL_TOKEN_FILE": str(operator),
    }
    assert here.keys() == {one["name"] for one in container["env"]}
    told = await Jobsctl(stack.jobs)(*container["args"][1:], **here)
    assert (0, "") == (told.code, told.err), told.out


async def _calls(
    stack: SecuredStack, credentials: grpc.ChannelCredentials, metadata: Any
) -> AsyncIterator[tuple[str, Any]]:
    """What JobService asks of the others, on connections of somebody else's own."""
    tenant = str(TENANT)
    async with _channel(stack.worker, credentials) as worker, _channel(stack.pricing, credentials) as pricing:
        runs: Any = WorkerServiceStub(worker)
        prices: Any = PricingServiceStub(pricing)
        given = {"metadata": metadata, "timeout": CALL_LIMIT}
        progress = worker_pb.StreamProgressRequest(tenant_id=tenant, job_id=JOB)
        short = worker_pb.GenerateRequest(call_id=JOB, tenant_id=tenant, request=SHORT)
        yield "status", runs.GetWorkerStatus(worker_pb.GetWorkerStatusRequest(), **given)
        yield "progress", runs.StreamProgress(progress, **given).read()
        yield "generate", runs.Generate(short, **given).read()
        yield "prices", prices.ListPrices(pricing_pb.ListPricesRequest(), **given)
        yield "price", prices.GetPrice(pricing_pb.GetPriceRequest(model=SHORT.model), **given)


def _channel(address: str, credentials: grpc.ChannelCredentials) -> grpc.aio.Channel:
    return grpc.aio.secure_channel(address, credentials, options=client_options())
