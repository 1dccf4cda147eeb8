"""Bulk orders over the store of a test, without a server in between."""

import asyncio
from collections.abc import Sequence
from uuid import uuid4

from jobs_service.service.bulk import BulkDecider, BulkPace
from jobs_store.bulk import BulkAction, BulkOrder, BulkRequests
from jobs_store.foresight import BulkOutcome
from jobs_store.job_search import LOOKED_AT, JobSearch, JobsMeant
from jobs_store.operator_decisions import Resolution
from jobs_store.operator_requests import OperatorRequest
from jobs_store.overview import Overview
from jobs_store.signals import Notify, silent
from tests.store import TENANT, Store, policy_of, time_enough

ANY_OF_TENANT = JobsMeant(tenant=TENANT)


def order(
    action: BulkAction,
    meant: JobsMeant = ANY_OF_TENANT,
    *,
    request_id: str = "",
    resolution: Resolution | None = None,
) -> BulkOrder:
    """An order of its own unless a request_id is given."""
    request = OperatorRequest(request_id=request_id or str(uuid4()), actor="ops", reason="an outage")
    return BulkOrder(action=action, meant=meant, request=request, resolution=resolution)


def decider_of(
    store: Store, *, pace: BulkPace | None = None, looked_at: int = LOOKED_AT, notify: Notify = silent
) -> BulkDecider:
    """Decides as the service would."""
    overview = Overview(store.worker, policy_of)
    return BulkDecider(
        requests=BulkRequests(overview),
        search=JobSearch(overview, looked_at=looked_at),
        decisions=store.decisions,
        tenants=store.tenants,
        notify=notify,
        pace=pace,
    )


async def pages_of(decider: BulkDecider, wanted: BulkOrder) -> list[Sequence[BulkOutcome]]:
    """What an order tells, page by page."""
    pages: list[Sequence[BulkOutcome]] = []

    async def send(outcomes: Sequence[BulkOutcome]) -> None:
        pages.append(outcomes)

    await decider.run(wanted, send=send, draining=asyncio.Event(), budget=time_enough())
    return pages


async def outcomes_of(decider: BulkDecider, wanted: BulkOrder) -> list[BulkOutcome]:
    """All that an order tells."""
    return [outcome for page in await pages_of(decider, wanted) for outcome in page]
