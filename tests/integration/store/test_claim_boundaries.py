"""What a claim leaves alone, however much room there is."""

import pytest

from jobs_store.states import JobState
from tests.integration.store.locks import superuser
from tests.store import LANE, OVER, TENANT, Store, price, time_enough

pytestmark = pytest.mark.every_postgres

ANOTHER_LANE = "simulated/slow"


async def test_a_run_whose_lease_is_over_is_not_claimed_again(store: Store) -> None:
    await store.tenant()
    expired = await store.running(lease=OVER)
    waiting = await store.create()
    # Behind the one that waits, where a claim would come across it.
    async with superuser(store) as connection:
        await connection.execute(
            "UPDATE hourglass.jobs SET ready_time = clock_timestamp() WHERE id = $1", expired.job_id
        )

    claimed = await store.claim()

    assert [waiting] == [run.job_id for run in claimed]
    detail = await store.reader.get(TENANT, expired.job_id, budget=time_enough())
    assert JobState.RUNNING == detail.job.state


async def test_a_tenants_limit_counts_over_all_lanes_of_one_claim(store: Store) -> None:
    await store.tenant(max_running=3)
    await store.runs.register_lanes([ANOTHER_LANE], budget=time_enough())
    for lane in (LANE, ANOTHER_LANE):
        for _ in range(3):
            await store.create(price=price(lane=lane))

    first = await store.claim(lanes=(LANE, ANOTHER_LANE))
    second = await store.claim(lanes=(LANE, ANOTHER_LANE))

    assert (3, 0) == (len(first), len(second))
