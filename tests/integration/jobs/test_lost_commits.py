"""A create whose COMMIT was sent and whose answer never came."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from grpc import StatusCode

from budget.core import Budget
from budget.errors import CommitOutcomeUnknown, DatabaseUnavailable
from jobs_store.creation import Created, JobCreation, KnownKey
from jobs_store.identifiers import TenantId
from jobs_store.new_job import NewJob
from tests.jobs import Jobs, failure

Create = Callable[..., Coroutine[Any, Any, Created]]
CREATE: Create = JobCreation.create


async def committed(self: JobCreation, job: NewJob, *, budget: Budget) -> Created:
    await CREATE(self, job, budget=budget)
    raise CommitOutcomeUnknown(dependency="postgres", method="create_job")


async def not_committed(self: JobCreation, job: NewJob, *, budget: Budget) -> Created:
    raise CommitOutcomeUnknown(dependency="postgres", method="create_job")


@pytest.mark.scenario("B9")
async def test_what_was_committed_is_found_by_its_key(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JobCreation, "create", committed)
    answer = await jobs.create("k1")
    assert answer.replayed is False
    monkeypatch.undo()
    assert (await jobs.create("k1")).job.job_id == answer.job.job_id
    assert await jobs.count("reservations") == 1


@pytest.mark.scenario("B9")
async def test_what_was_not_committed_is_in_doubt_and_the_same_key_settles_it(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(JobCreation, "create", not_committed)
    refused = await failure(jobs.create("k1"))
    assert refused.kind == (StatusCode.UNAVAILABLE, "COMMIT_OUTCOME_UNKNOWN")
    monkeypatch.undo()
    assert (await jobs.create("k1")).replayed is False
    assert await jobs.count("reservations") == 1


async def test_a_look_that_fails_too_leaves_the_doubt(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[bytes] = []

    async def find_key(
        _self: JobCreation, _tenant: TenantId, digest: bytes, *, budget: Budget
    ) -> KnownKey | None:
        looks.append(digest)
        if len(looks) > 1:
            raise DatabaseUnavailable(dependency="postgres", method="find_idempotency_key")
        return None

    monkeypatch.setattr(JobCreation, "create", committed)
    monkeypatch.setattr(JobCreation, "find_key", find_key)
    refused = await failure(jobs.create("k1"))
    assert refused.kind == (StatusCode.UNAVAILABLE, "COMMIT_OUTCOME_UNKNOWN")
    assert len(looks) == 2
