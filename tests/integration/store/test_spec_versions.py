"""Rolling deploys: jobs whose spec is newer than what this release knows wait for processes that know it."""

import pytest

from jobs_store.identifiers import JobId
from jobs_store.new_job import SPEC_VERSION
from jobs_store.runs import Claimed
from jobs_store.states import JobState
from tests.integration.store.locks import superuser
from tests.store import OVER, TENANT, Store, acceptance_of, hold_of, release_of, time_enough

pytestmark = pytest.mark.every_postgres

NEWER = SPEC_VERSION + 1


async def of_version(store: Store, version: int, *jobs: JobId) -> None:
    """As if a process of that release had created the jobs."""
    async with superuser(store) as connection:
        await connection.execute(
            "UPDATE hourglass.jobs SET spec_version = $1 WHERE id = ANY ($2)", version, list(jobs)
        )


async def state_of(store: Store, job_id: JobId) -> tuple[JobState, int]:
    """Its state, and how many attempts it has had."""
    detail = await store.reader.get(TENANT, job_id, budget=time_enough())
    return detail.job.state, detail.job.attempt_count


async def test_a_job_of_a_newer_spec_stays_queued_uncharged_for_a_worker_that_knows_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.tenant()
    newer, known = await store.create(priority=100), await store.create()
    await of_version(store, NEWER, newer)
    assert [known] == [run.job_id for run in await store.claim(10)]
    assert [] == await store.claim(10)
    assert (JobState.QUEUED, 0) == await state_of(store, newer)
    monkeypatch.setattr("jobs_store.runs.SPEC_VERSION", NEWER)
    (run,) = await store.claim(10)
    assert (newer, 1) == (run.job_id, run.attempt_number)
    await store.start(run)
    await store.runs.finish([acceptance_of(run)], budget=time_enough())
    assert (JobState.SUCCEEDED, 1) == await state_of(store, newer)


async def test_a_worker_takes_older_and_newer_jobs_in_one_order(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.tenant()
    first, second, third = [await store.create() for _ in range(3)]
    await of_version(store, NEWER, second)
    monkeypatch.setattr("jobs_store.runs.SPEC_VERSION", NEWER)
    assert [first, second, third] == [(await store.claim_one()).job_id for _ in range(3)]


async def newer_run(store: Store, *, lease: float) -> Claimed:
    """A run of a newer job, in a process that knows its spec."""
    run = await store.running(lease=lease)
    await of_version(store, NEWER, run.job_id)
    return run


async def test_a_lost_run_of_a_newer_spec_is_taken_over_by_whoever_knows_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What its end means for the job is written in the newer release."""
    await store.tenant()
    run = await newer_run(store, lease=OVER)
    assert 0 == (await store.reaper.reap(budget=time_enough())).taken_over
    assert (JobState.RUNNING, 0) == await state_of(store, run.job_id)
    monkeypatch.setattr("jobs_store.reaper.SPEC_VERSION", NEWER)
    assert 1 == (await store.reaper.reap(budget=time_enough())).taken_over


async def test_a_newer_run_goes_back_to_the_queue_as_what_it_is(store: Store) -> None:
    """A release keeps the version, so that no older worker gets the job after all."""
    await store.tenant()
    run = await newer_run(store, lease=60.0)
    await store.runs.requeue([hold_of(run)], budget=time_enough())
    assert (JobState.HELD, 1) == await state_of(store, run.job_id)
    await store.create()
    other = await store.claim_one()
    await of_version(store, NEWER, other.job_id)
    await store.runs.requeue([release_of(other)], budget=time_enough())
    assert [] == await store.claim(10)
