"""One row that cannot be had, or cannot be ended, keeps the reaper from no other."""

import pytest

from jobs_store.reaper import Reaped
from tests.integration.store.locks import superuser
from tests.store import OVER, Store, time_enough

pytestmark = pytest.mark.every_postgres


async def test_a_reaper_waits_for_no_job_row(store: Store) -> None:
    await store.tenant()
    busy, free = await store.running(lease=OVER), await store.running(lease=OVER)
    async with superuser(store) as connection, connection.transaction():
        await connection.fetch("SELECT FROM hourglass.jobs WHERE id = $1 FOR NO KEY UPDATE", busy.job_id)
        reaped = await store.reaper.reap(budget=time_enough())
        assert 1 == reaped.taken_over
    async with superuser(store) as connection:
        rows = await connection.fetch("SELECT id, state FROM hourglass.jobs")
    assert {busy.job_id: "RUNNING", free.job_id: "QUEUED"} == {row["id"]: row["state"] for row in rows}
    assert 1 == (await store.reaper.reap(budget=time_enough())).taken_over


async def test_a_job_that_cannot_be_ended_keeps_no_other_from_its_end(store: Store) -> None:
    await store.tenant()
    broken, sound = await store.create(queue_timeout=0.001), await store.create(queue_timeout=0.001)
    async with superuser(store) as connection:
        await connection.execute(
            "INSERT INTO hourglass.finished_jobs "
            "SELECT tenant_id, id, lane, spec_version, priority, 'FAILED', 'CORRUPT', epoch, "
            "last_sequence, clock_timestamp(), ready_time, 0, 0, 1 "
            "FROM hourglass.jobs WHERE id = $1",
            broken,
        )
        reaped = await store.reaper.reap(budget=time_enough())
        left = await connection.fetch("SELECT id FROM hourglass.jobs")
    assert Reaped(taken_over=0, expired=1, hold_ended=0, more=False) == reaped
    assert [broken] == [row["id"] for row in left]
    assert sound != broken
