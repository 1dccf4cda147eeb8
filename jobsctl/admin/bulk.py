"""Many jobs at once: retry, resolve, cancel. What would happen is shown by the same call as a dry run."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, assert_never
from uuid import uuid4

from hourglass.jobs.v1.admin_service_pb2 import (
    BulkCancelJobsRequest,
    BulkCancelJobsResponse,
    BulkJobOutcome,
    BulkResolveJobsRequest,
    BulkResolveJobsResponse,
    BulkRetryJobsRequest,
    BulkRetryJobsResponse,
    JobFilter,
)
from jobsctl import inputs
from jobsctl.exits import Failure
from jobsctl.jobs.deciding import resolution_of
from jobsctl.jobs.lines import state_name
from jobsctl.session import Session
from presentation.values import ABSENT, counted

COLUMNS: Final = ("tenant", "job", "state", "remark")
Pages = AbstractAsyncContextManager[
    AsyncIterator[BulkRetryJobsResponse | BulkResolveJobsResponse | BulkCancelJobsResponse]
]


class Action(StrEnum):
    """What is done to each job."""

    RETRY = "retry"
    RESOLVE_RETRY = "resolve retry"
    RESOLVE_FAIL = "resolve fail"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which jobs; at least one field says something."""

    tenant: str = ""
    lane: str = ""
    cause: str = ""
    created_from: datetime | None = None
    created_before: datetime | None = None
    job_ids: Sequence[str] = ()

    @property
    def says_something(self) -> bool:
        """Whether any field is set: nothing is ever done to all jobs of all tenants."""
        return bool(
            self.tenant or self.lane or self.cause or self.created_from or self.created_before or self.job_ids
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is done to which jobs, and why."""

    action: Action
    selection: Selection
    request_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How many jobs it is done to, and how many it is not."""

    done: int = 0
    refused: int = 0


async def look(session: Session, order: Order) -> Tally:
    """Show what would happen, under a request_id of its own."""
    return await _go(session, order, dry_run=True)


async def carry_out(session: Session, order: Order) -> Tally:
    """Do it. Raises Failure when some jobs were not what they were."""
    tally = await _go(session, order, dry_run=False)
    if tally.refused:
        total = tally.done + tally.refused
        raise Failure("PARTLY_REFUSED", f"{tally.refused} of {total} jobs were left as they are")
    return tally


async def _go(session: Session, order: Order, *, dry_run: bool) -> Tally:
    outcomes: list[BulkJobOutcome] = []
    with session.printer.waiting(f"{order.action}: no job yet") as tell:
        async with _pages(session, order, dry_run=dry_run) as pages:
            async for page in pages:
                outcomes.extend(page.outcomes)
                tell(f"{order.action}: {counted(len(outcomes), 'job')} so far")
                if session.printer.json:
                    session.printer.json_line(page)
    if not session.printer.json:
        session.printer.table(COLUMNS, map(_row, outcomes))
    refused = sum(1 for outcome in outcomes if outcome.refused_reason)
    return Tally(done=len(outcomes) - refused, refused=refused)


def _pages(session: Session, order: Order, *, dry_run: bool) -> Pages:
    admin = session.admin
    told: dict[str, Any] = {
        "filter": _filter(order.selection),
        "dry_run": dry_run,
        "request_id": f"jobsctl-look-{uuid4()}" if dry_run else order.request_id,
        "reason": order.reason,
    }
    match order.action:
        case Action.RETRY:
            return session.stream("BulkRetryJobs", admin.BulkRetryJobs, BulkRetryJobsRequest(**told))
        case Action.CANCEL:
            return session.stream("BulkCancelJobs", admin.BulkCancelJobs, BulkCancelJobsRequest(**told))
        case Action.RESOLVE_RETRY | Action.RESOLVE_FAIL:
            resolution = resolution_of(order.action.removeprefix("resolve "))
            request = BulkResolveJobsRequest(resolution=resolution, **told)
            return session.stream("BulkResolveJobs", admin.BulkResolveJobs, request)
        case _:
            assert_never(order.action)


def _filter(selection: Selection) -> JobFilter:
    return JobFilter(
        tenant_id=selection.tenant,
        lane=selection.lane,
        state_cause=selection.cause,
        create_time_from=inputs.time(selection.created_from),
        create_time_before=inputs.time(selection.created_before),
        job_ids=selection.job_ids,
    )


def _row(outcome: BulkJobOutcome) -> Sequence[str]:
    known = "decided before" if outcome.replayed else ABSENT
    state = state_name(outcome.state) if outcome.state else ABSENT
    return outcome.tenant_id, outcome.job_id, state, outcome.refused_reason or known
