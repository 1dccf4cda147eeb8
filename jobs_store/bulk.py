"""Decisions about many jobs: what was asked, once a request_id, and what each decision would come to.

The decisions themselves are those of `operator_decisions`, one by one.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Final, assert_never

from budget.core import Budget
from budget.postgres import Record
from jobs_store.errors import RequestIdReused
from jobs_store.identifiers import JobId
from jobs_store.job_search import FoundJob, JobsMeant, Population
from jobs_store.operator_decisions import Action, Resolution, asked_of
from jobs_store.operator_requests import NO_TENANT, Asked, OperatorRequest, take_request
from jobs_store.overview import Overview
from jobs_store.statements import statement
from jobs_store.states import JobState

_LONGEST_REQUEST_ID: Final = 255


class BulkAction(StrEnum):
    """What is decided about each job, as the audit log has it."""

    RETRY = "BULK_RETRY_JOBS"
    RESOLVE = "BULK_RESOLVE_JOBS"
    CANCEL = "BULK_CANCEL_JOBS"


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkOrder:
    """One bulk call. resolution: of RESOLVE only. dry_run: only tell."""

    action: BulkAction
    meant: JobsMeant
    request: OperatorRequest
    resolution: Resolution | None = None
    dry_run: bool = False

    @property
    def population(self) -> Population:
        """Where its jobs are."""
        match self.action:
            case BulkAction.RETRY:
                return Population.FAILED
            case BulkAction.RESOLVE:
                return Population.HELD
            case BulkAction.CANCEL:
                return Population.UNFINISHED
            case _:
                assert_never(self.action)

    @property
    def asked(self) -> Asked:
        """What its request_id stands for."""
        meant = self.meant.to_json()
        return Asked(
            action=self.action,
            content=(self.action, self.resolution, meant),
            subject="jobs",
            details={"filter": meant, **({"resolution": self.resolution} if self.resolution else {})},
        )

    def asked_about(self, job_id: JobId) -> Asked:
        """What the request_id of one of its decisions stands for."""
        match self.action:
            case BulkAction.RETRY:
                return asked_of(job_id, Action.RETRY)
            case BulkAction.RESOLVE:
                return asked_of(job_id, Action.RESOLVE, self.resolution)
            case BulkAction.CANCEL:
                return asked_of(job_id, Action.CANCEL)
            case _:
                assert_never(self.action)

    def request_id_of(self, job_id: JobId) -> str:
        """Names the decision about one job: the same call again decides the same, once."""
        head, tail = self.request.request_id, f"/{job_id}"
        if len(head) + len(tail) > _LONGEST_REQUEST_ID:
            head = hashlib.sha256(head.encode()).hexdigest()
        return head + tail


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What a decision about a job depends on, as it was read.

    known: what the decision's request_id was used for, action and digest; None when it is free.
    cost_limit_left: another attempt fits into its provider_cost_limit. queue_room: jobs that its tenant may
    queue beyond those it has. Amounts in dollars.
    """

    state: JobState
    known: tuple[str, bytes] | None
    erased: bool
    has_payload: bool
    cost_limit_left: bool
    quoted_amount: Decimal
    queue_room: int
    available: Decimal


class BulkRequests:
    """Takes what was asked for as a whole, and looks at what it would come to."""

    def __init__(self, overview: Overview) -> None:
        self._overview = overview

    async def take(self, order: BulkOrder, *, budget: Budget) -> datetime:
        """Takes the request_id, with an audit row, or finds that this very order has it; answers since when.

        Raises RequestIdReused.
        """
        async with self._overview.change("take_bulk_request", budget) as transaction:
            await take_request(transaction, NO_TENANT, order.request, order.asked)
            row = await transaction.fetchrow(
                statement("find_operator_request"), NO_TENANT, order.request.request_id
            )
        assert row is not None, "the request_id was taken"
        since: datetime = row["create_time"]
        return since

    async def find(self, order: BulkOrder, *, budget: Budget) -> datetime | None:
        """Since when the order has its request_id; None when nobody has it. Raises RequestIdReused."""
        rows = await self._overview.read(
            "find_operator_request", NO_TENANT, order.request.request_id, budget=budget
        )
        if not rows:
            return None
        if (rows[0]["action"], rows[0]["request_digest"]) != (order.asked.action, order.asked.digest):
            raise RequestIdReused(order.request.request_id)
        since: datetime = rows[0]["create_time"]
        return since

    async def look(
        self, order: BulkOrder, jobs: Sequence[FoundJob], *, budget: Budget
    ) -> Sequence[Outlook | None]:
        """What the decisions depend on, in order; None where there is no such job."""
        rows = await self._overview.read(
            "foresee_decisions",
            [job.tenant for job in jobs],
            [job.job_id for job in jobs],
            [order.request_id_of(job.job_id) for job in jobs],
            budget=budget,
        )
        found = {row["ordinal"]: _outlook(row) for row in rows}
        return [found.get(ordinal) for ordinal in range(1, len(jobs) + 1)]


def _outlook(row: Record) -> Outlook:
    known = row["known_action"]
    return Outlook(
        state=JobState(row["state"]),
        known=None if known is None else (known, row["known_digest"]),
        erased=row["erased"],
        has_payload=row["has_payload"],
        cost_limit_left=row["cost_limit_left"],
        quoted_amount=row["quoted_amount"],
        queue_room=row["queue_room"],
        available=row["available"],
    )
