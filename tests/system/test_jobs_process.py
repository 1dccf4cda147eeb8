"""The job process: with and without its database, and to its end."""

import asyncio
import json
import os
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import StatusCode
from grpc_health.v1 import health_pb2, health_pb2_grpc

from hourglass.jobs.v1 import admin_service_pb2 as admin_pb
from hourglass.jobs.v1 import jobs_service_pb2 as pb
from hourglass.jobs.v1.admin_service_pb2_grpc import AdminServiceStub
from hourglass.jobs.v1.jobs_service_pb2_grpc import JobServiceStub
from tests.jobs import TENANT, failure, failure_of, of, pricing_server, spec
from tests.postgres import TestDatabase
from tests.waiting import eventually

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@dataclass(frozen=True, slots=True)
class JobsProcess:
    """A running process, and what it has said so far."""

    process: Process
    lines: list[dict[str, Any]]

    def said(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["event"] == event]

    @property
    def address(self) -> str:
        return str(self.said("serving")[0]["address"])


@asynccontextmanager
async def started(**variables: str) -> AsyncIterator[JobsProcess]:
    settings = {f"HOURGLASS_JOBS_{name.upper()}": value for name, value in variables.items()}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "jobs_service",
        env={**os.environ, "HOURGLASS_JOBS_LISTEN": "127.0.0.1:0", **settings},
        stdout=PIPE,
    )
    running = JobsProcess(process, [])
    reading = asyncio.create_task(_read(running))
    try:
        await eventually(lambda: running.said("serving"), within=20)
        yield running
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await process.wait()
        await reading


async def _read(running: JobsProcess) -> None:
    assert running.process.stdout is not None
    async for line in running.process.stdout:
        running.lines.append(json.loads(line))


async def health(channel: grpc.aio.Channel, service: str) -> Any:
    stub: Any = health_pb2_grpc.HealthStub(channel)
    return (await stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=5)).status


async def ready(channel: grpc.aio.Channel) -> bool:
    return bool(await health(channel, "readiness") == SERVING)


async def test_without_its_database_it_says_so_refuses_and_goes_on_when_it_comes(
    database: TestDatabase, tmp_path: Path
) -> None:
    found = re.search(r"host=([^&]+)", database.request)
    assert found is not None
    link = tmp_path / "postgres"
    elsewhere = database.request.replace(found[1], str(link))
    async with (
        pricing_server() as pricing,
        started(database_url=elsewhere, pricing_target=pricing) as jobs,
        grpc.aio.insecure_channel(jobs.address) as channel,
    ):
        assert await health(channel, "liveness") == SERVING
        assert await health(channel, "readiness") == NOT_SERVING
        assert await health(channel, "hourglass.jobs.v1.JobService") == NOT_SERVING
        request = pb.CreateJobRequest(idempotency_key="k1", spec=spec())
        stub: Any = JobServiceStub(channel)
        refused = await failure(stub.CreateJob(request, metadata=of(TENANT)))
        assert refused.kind == (StatusCode.UNAVAILABLE, "DATABASE_UNAVAILABLE")
        told = await eventually(
            lambda: jobs.said("the database cannot be reached: requests are refused until it can")
        )
        assert {"reason", "next_try_in", "database"} <= told[0].keys()
        link.symlink_to(found[1])
        await eventually(lambda: ready(channel), within=15)
        admin: Any = AdminServiceStub(channel)
        await admin.CreateTenant(
            admin_pb.CreateTenantRequest(tenant_id=TENANT, request_id="r", reason="test")
        )
        assert (await failure(stub.CreateJob(request, metadata=of(TENANT)))).reason == "INSUFFICIENT_FUNDS"
    assert jobs.process.returncode == 0


async def test_on_sigterm_a_watch_is_told_to_resume_and_the_process_ends_with_0(
    database: TestDatabase,
) -> None:
    async with (
        pricing_server() as pricing,
        started(
            database_url=database.request,
            worker_database_url=database.worker,
            pricing_target=pricing,
            policies='{"postgres": {"limit": 20}}',
        ) as jobs,
        grpc.aio.insecure_channel(jobs.address) as channel,
    ):
        await eventually(lambda: ready(channel), within=15)
        job_id = await _a_job(database, channel)
        stub: Any = JobServiceStub(channel)
        stream = stub.WatchJob(pb.WatchJobRequest(job_id=job_id), metadata=of(TENANT))
        await stream.read()
        jobs.process.send_signal(signal.SIGTERM)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await _to_the_end(stream)
        assert failure_of(caught.value).kind == (StatusCode.UNAVAILABLE, "RESUME")
        async with asyncio.timeout(15):
            assert await jobs.process.wait() == 0
    settings = jobs.said("settings")[0]
    assert settings["database_url"] == "***"
    assert not [line for line in jobs.lines if line["level"] in {"error", "critical"}]


async def _to_the_end(stream: Any) -> None:
    while await stream.read() is not grpc.aio.EOF:
        pass


async def _a_job(database: TestDatabase, channel: grpc.aio.Channel) -> str:
    admin: Any = AdminServiceStub(channel)
    await admin.CreateTenant(admin_pb.CreateTenantRequest(tenant_id=TENANT, request_id="r", reason="test"))
    funding = admin_pb.FundTenantRequest(tenant_id=TENANT, request_id="f", reason="test")
    funding.amount.units = 10
    await admin.FundTenant(funding)
    stub: Any = JobServiceStub(channel)
    request = pb.CreateJobRequest(idempotency_key="k1", spec=spec())
    return str((await stub.CreateJob(request, metadata=of(TENANT))).job.job_id)


async def test_wrong_settings_are_all_named_and_nothing_starts() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "jobs_service",
        env={
            **os.environ,
            "HOURGLASS_JOBS_POOL_SIZE": "0",
            "HOURGLASS_JOBS_POLICIES": '{"postgers": {"limit": 1}}',
        },
        stderr=PIPE,
    )
    _, errors = await process.communicate()
    assert process.returncode == 2
    for named in ("HOURGLASS_JOBS_DATABASE_URL", "HOURGLASS_JOBS_POOL_SIZE", "HOURGLASS_JOBS_POLICIES"):
        assert named in errors.decode()


async def test_a_port_that_is_taken_ends_the_start_with_its_address(database: TestDatabase) -> None:
    async with pricing_server() as taken:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "jobs_service",
            env={
                **os.environ,
                "HOURGLASS_JOBS_LISTEN": taken,
                "HOURGLASS_JOBS_DATABASE_URL": database.request,
            },
            stdout=PIPE,
        )
        output, _ = await process.communicate()
    assert process.returncode == 1
    assert f"cannot listen on {taken}: Address already in use" in output.decode()
