"""A tenant's funds after the end of a job."""

from collections.abc import Callable
from decimal import Decimal

import pytest

from jobs_store.endings import Finish
from jobs_store.runs import Claimed
from tests.store import CHARGE, TENANT, Store, acceptance_of, failure_of, time_enough

pytestmark = pytest.mark.every_postgres

FUNDS = Decimal(1)


@pytest.mark.parametrize(("end", "charge"), [(failure_of, Decimal(0)), (acceptance_of, CHARGE)])
async def test_what_was_reserved_is_captured_or_given_back_when_the_job_ends(
    store: Store, end: Callable[[Claimed], Finish], charge: Decimal
) -> None:
    await store.tenant(funds=FUNDS)
    run = await store.running()
    await store.runs.finish([end(run)], budget=time_enough())

    tenant = await store.tenants.get(TENANT, budget=time_enough())
    assert (FUNDS - charge, Decimal(0), charge) == (tenant.available, tenant.reserved, tenant.captured)
