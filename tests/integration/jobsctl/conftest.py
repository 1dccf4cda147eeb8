"""`jobsctl` against a running JobService with one tenant that has money."""

from collections.abc import AsyncIterator
from decimal import Decimal

import pytest

from tests.cli import Jobsctl
from tests.jobs import TENANT, Jobs, jobs_server, pricing_server
from tests.postgres import TestDatabase

FUNDS = Decimal(10)


@pytest.fixture
async def jobs(database: TestDatabase) -> AsyncIterator[Jobs]:
    """JobService and PricingService over a fresh database; nobody runs jobs by himself."""
    async with pricing_server() as pricing, jobs_server(database, pricing=pricing) as running:
        await running.fund(TENANT, FUNDS)
        yield running


@pytest.fixture
def jobsctl(jobs: Jobs) -> Jobsctl:
    """The command line, which calls that JobService."""
    return Jobsctl(jobs.address)
