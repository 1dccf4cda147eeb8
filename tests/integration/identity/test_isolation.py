"""Another tenant's job is one that never was, whatever is asked about it and however the caller is known."""

from typing import Any
from uuid import UUID

import grpc
import pytest

from hourglass.jobs.v1 import jobs_service_pb2 as pb
from jobs_store.identifiers import new_job_id
from tests.integration.identity.callers import Known, Metadata
from tests.jobs import Failure, failure
from tests.store import acceptance_of, open_store, time_enough
from tests.tokens import bearer, token

DETAILS = "grpc-status-details-bin"
DECISION = {"request_id": "one", "reason": "curious"}
QUESTIONS: list[tuple[str, Any]] = [
    ("GetJob", lambda job_id: pb.GetJobRequest(job_id=job_id)),
    ("GetJob", lambda job_id: pb.GetJobRequest(job_id=job_id, include_content=True, include_attempts=True)),
    ("WaitJob", lambda job_id: pb.WaitJobRequest(job_id=job_id, include_content=True)),
    ("CancelJob", lambda job_id: pb.CancelJobRequest(job_id=job_id)),
    ("RetryJob", lambda job_id: pb.RetryJobRequest(job_id=job_id, **DECISION)),
    (
        "ResolveJob",
        lambda job_id: pb.ResolveJobRequest(job_id=job_id, resolution=pb.JOB_RESOLUTION_FAIL, **DECISION),
    ),
    ("EraseJobContent", lambda job_id: pb.EraseJobContentRequest(job_id=job_id, **DECISION)),
    ("WatchJob", lambda job_id: pb.WatchJobRequest(job_id=job_id)),
    ("WatchJob", lambda job_id: pb.WatchJobRequest(job_id=job_id, replay_only=True, after_sequence=5)),
]


@pytest.fixture(params=["token", "api_key"])
async def callers(known: Known, request: pytest.FixtureRequest) -> tuple[Metadata, Metadata]:
    """What a user of acme and a user of zeta send."""
    if request.param == "token":
        return bearer(token(tenant="acme")), bearer(token(tenant="zeta", user="zoe"))
    acme, zeta = await known.key("acme"), await known.key("zeta")
    return bearer(acme.secret), bearer(zeta.secret)


async def refusal(known: Known, name: str, request: Any, metadata: Metadata) -> Failure:
    if name == "WatchJob":
        return await failure(known.events(request, metadata))
    return await failure(known.ask(name, request, metadata))


def body_of(refused: Failure, job_id: str) -> tuple[Any, ...]:
    """All that a caller is told, without the id that it sent itself."""
    details = refused.trailers[DETAILS]
    assert isinstance(details, bytes)
    return (
        refused.code,
        refused.message.replace(job_id, "-"),
        details.replace(job_id.encode(), b"-"),
        set(refused.trailers),
    )


async def finished(known: Known, metadata: Metadata) -> str:
    """A job that ran and succeeded."""
    job = await known.create(metadata, "finished")
    async with open_store(known.jobs.database) as store:
        await store.runs.register_lanes([job.lane], budget=time_enough())
        (run,) = await store.claim(1, lanes=[job.lane])
        await store.start(run)
        await store.runs.finish([acceptance_of(run)], budget=time_enough())
    return job.job_id


async def test_another_tenants_job_answers_like_one_that_never_was(
    known: Known, callers: tuple[Metadata, Metadata]
) -> None:
    acme, zeta = callers
    ended = await finished(known, acme)
    queued = (await known.create(acme, "queued")).job_id
    for name, question in QUESTIONS:
        never = str(new_job_id())
        wanted = body_of(await refusal(known, name, question(never), zeta), never)
        assert grpc.StatusCode.NOT_FOUND == wanted[0], name
        for job_id in (ended, queued):
            told = await refusal(known, name, question(job_id), zeta)
            assert wanted == body_of(told, job_id), name
    for job_id, state in ((ended, "SUCCEEDED"), (queued, "QUEUED")):
        rows = await known.jobs.sql(
            "SELECT state FROM hourglass.jobs WHERE id = $1 UNION ALL "
            "SELECT state FROM hourglass.finished_jobs WHERE id = $1",
            UUID(job_id),
        )
        assert [state] == [row["state"] for row in rows], "nothing was changed"


async def test_a_list_shows_ones_own_jobs_and_a_foreign_page_token_is_garbage(
    known: Known, callers: tuple[Metadata, Metadata]
) -> None:
    acme, zeta = callers
    mine = {(await known.create(acme, key)).job_id for key in ("a", "b")}
    assert [] == list((await known.ask("ListJobs", pb.ListJobsRequest(), zeta)).jobs)
    assert mine == {job.job_id for job in (await known.ask("ListJobs", pb.ListJobsRequest(), acme)).jobs}
    page = await known.ask("ListJobs", pb.ListJobsRequest(page_size=1), acme)
    foreign, garbage = [
        await failure(known.ask("ListJobs", pb.ListJobsRequest(page_size=1, page_token=text), zeta))
        for text in (page.next_page_token, "garbage")
    ]
    assert grpc.StatusCode.INVALID_ARGUMENT == foreign.code
    assert (foreign.message, foreign.trailers[DETAILS]) == (garbage.message, garbage.trailers[DETAILS])


async def test_a_key_of_another_tenant_makes_a_job_of_ones_own(
    known: Known, callers: tuple[Metadata, Metadata]
) -> None:
    acme, zeta = callers
    first, second = await known.create(acme, "same"), await known.create(zeta, "same")
    assert first.job_id != second.job_id
