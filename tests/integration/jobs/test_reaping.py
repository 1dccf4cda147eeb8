"""What JobService's own reaper does with the jobs that it takes over."""

from datetime import timedelta
from typing import Any

from jobs_store.states import UnknownOutcomePolicy
from tests.jobs import Jobs, jobs_server, pricing_server
from tests.postgres import TestDatabase
from tests.store import OVER, open_store
from tests.waiting import eventually

HOLD = "SELECT hold_until - update_time AS held_for FROM hourglass.jobs WHERE state = 'HELD'"
WAIT = "SELECT ready_time - update_time AS waits FROM hourglass.jobs WHERE state_cause = 'UNKNOWN_OUTCOME'"


async def one(jobs: Jobs, query: str) -> timedelta:
    """The one value that the query finds, once there is one."""
    rows = await eventually(lambda: jobs.sql(query), within=20)
    value: timedelta = rows[0][0]
    return value


async def test_a_job_that_it_takes_over_is_held_and_backs_off_as_its_settings_say(
    database: TestDatabase,
) -> None:
    settings: dict[str, Any] = {
        "reap_interval": 0.05,
        "reap_wait": 0.0,
        "hold_timeout": 7.0,
        "backoff_cap": 0.0,
    }
    async with open_store(database) as store:
        await store.tenant()
        await store.running(lease=OVER, unknown_outcome_policy=UnknownOutcomePolicy.HOLD)
        await store.running(lease=OVER, unknown_outcome_policy=UnknownOutcomePolicy.RETRY)
        async with pricing_server() as pricing, jobs_server(database, pricing=pricing, **settings) as jobs:
            assert timedelta(seconds=7) == await one(jobs, HOLD)
            assert timedelta(0) == await one(jobs, f"{WAIT} AND state = 'QUEUED'")
