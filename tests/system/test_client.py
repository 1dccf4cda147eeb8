"""The client against the real services: what it reads is what is stored, wherever its streams break."""

import asyncio
from pathlib import Path

import pytest

from hourglass.jobs.v1 import jobs_service_pb2 as pb
from hourglass.jobs.v1.job_pb2 import Job, JobState, Message, Role
from hourglass_client import AsyncClient, Client, NotFound, PreconditionFailed
from tests.postgres import TestDatabase
from tests.stacks import spec_of, stack_on
from tests.system.readers import log_of

pytestmark = pytest.mark.timeout(120)
SLOW = "simulated:tokens=40,tps=25"
TENANT = (("x-tenant-id", "demo"),)


async def test_one_job_from_its_price_to_its_result_for_both_kinds_of_callers(
    database: TestDatabase, tmp_path: Path
) -> None:
    async with stack_on(database, tmp_path) as stack:
        async with AsyncClient.connect(stack.jobs, metadata=TENANT) as client:
            awaited = await _whole_way(client)
        blocked = await asyncio.to_thread(_whole_way_blocking, stack.jobs)
    for job, text in (awaited, blocked):
        assert JobState.JOB_STATE_SUCCEEDED == job.state
        assert job.result.text == text != ""


async def _whole_way(client: AsyncClient) -> tuple[Job, str]:
    spec = spec_of("simulated-fast")
    quote = await client.quote(
        pb.QuoteRequest(models=["simulated-fast"], messages=spec.messages, max_output_token_count=64)
    )
    created = await client.create(spec, quote_id=quote.quote_id, key="async", timeout=5.0)
    assert (await client.create(spec, key="async")).replayed
    job_id = created.job.job_id
    async with client.watch(job_id, timeout=30.0) as events:
        async for _ in events:
            pass
    job = await client.wait(job_id, content=True)
    assert job.result == (await client.get(job_id, content=True)).result
    assert pb.CANCEL_OUTCOME_ALREADY_TERMINAL == (await client.cancel(job_id)).outcome
    with pytest.raises(PreconditionFailed, match="JOB_NOT_FAILED"):
        await client.retry(job_id, reason="once more")
    with pytest.raises(PreconditionFailed, match="JOB_NOT_HELD"):
        await client.resolve(job_id, pb.JOB_RESOLUTION_FAIL, reason="enough")
    async with client.generate(_short()) as messages:
        kinds = [message.WhichOneof("message") async for message in messages]
    assert ("started", "finished") == (kinds[0], kinds[-1])
    return job, events.text


def _whole_way_blocking(target: str) -> tuple[Job, str]:
    ledgers: list[str] = []
    with Client.connect(
        target, metadata=TENANT, on_ledger=lambda method, _: ledgers.append(method)
    ) as client:
        job_id = client.create(spec_of("simulated-fast"), timeout=5.0).job.job_id
        with client.watch(job_id, timeout=30.0) as events:
            for _ in events:
                pass
        job = client.wait(job_id, content=True)
        with pytest.raises(NotFound, match="JOB_NOT_FOUND"):
            client.get("01a22d49-b7d7-7075-b32c-ecffb9470433")
        with client.generate(_short()) as messages:
            assert "finished" == list(messages)[-1].WhichOneof("message")
    assert ["CreateJob", "WatchJob", "WaitJob", "GetJob", "Generate"] == ledgers
    return job, events.text


def _short() -> pb.GenerateRequest:
    message = Message(role=Role.ROLE_USER, content="Say something.")
    return pb.GenerateRequest(model="simulated-fast", messages=[message], max_output_token_count=8)


@pytest.mark.faults
async def test_a_job_that_outlasts_a_wait_and_its_streams_is_told_as_it_is_and_read_on(
    database: TestDatabase, tmp_path: Path
) -> None:
    reasons: list[str] = []
    async with (
        stack_on(database, tmp_path, jobs={"MAX_STREAM_AGE": "0.5"}) as stack,
        AsyncClient.connect(stack.jobs) as client,
    ):
        job_id = (await client.create(spec_of(SLOW))).job.job_id
        early = await client.wait(job_id, timeout=0.3)
        watch = client.watch(job_id, on_break=lambda error: reasons.append(error.reason))
        async with watch as events:
            async for _ in events:
                pass
        ended = await client.wait(job_id)
        log = await log_of(client, job_id)
    assert early.state in {JobState.JOB_STATE_QUEUED, JobState.JOB_STATE_RUNNING}
    assert JobState.JOB_STATE_SUCCEEDED == ended.state
    assert log == events.transcript.events
    assert {"RESUME"} == set(reasons)
