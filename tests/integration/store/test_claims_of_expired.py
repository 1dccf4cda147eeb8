"""A lease that is over is the reaper's business: a claim leaves it alone."""

import pytest

from jobs_store.states import JobState
from tests.store import OVER, TENANT, Store, time_enough

pytestmark = pytest.mark.every_postgres


async def test_a_run_whose_lease_is_over_is_not_claimed_again(store: Store) -> None:
    await store.tenant()
    expired = await store.running(lease=OVER)
    waiting = await store.create()

    claimed = await store.claim()

    assert [waiting] == [run.job_id for run in claimed]
    detail = await store.reader.get(TENANT, expired.job_id, budget=time_enough())
    assert JobState.RUNNING == detail.job.state
