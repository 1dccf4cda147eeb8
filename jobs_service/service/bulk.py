"""Bulk retry, resolve and cancel: one decision a job, told page by page.

Each page has a budget of its own. What was decided before a stream ends, however it ends, holds and was
told, unless its caller had left; the same order again goes on from there.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import assert_never

from budget.core import Budget
from budget.errors import DatabaseConflict, DatabaseTimeout
from jobs_store.bulk import BulkAction, BulkOrder, BulkRequests
from jobs_store.cancellation import CancelOutcome
from jobs_store.errors import JobNotFound, StoreError
from jobs_store.foresight import BulkOutcome, Foresight
from jobs_store.job_search import FoundJob, JobSearch, Place
from jobs_store.operator_decisions import Decision, OperatorDecisions, Resolution
from jobs_store.signals import Notify, cancel_asked, job_changed, jobs_ready
from jobs_store.states import JobState
from jobs_store.tenants import TenantStore
from servicekit.errors import Draining

Send = Callable[[Sequence[BulkOutcome]], Awaitable[None]]
"""Tells one page."""
Decide = Callable[[Sequence[FoundJob], list[BulkOutcome], Budget], Awaitable[None]]
"""Decides about jobs in order, as many as the page's budget allows, and appends what came of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkPace:
    """page: seconds for each. size: jobs of a page. enough: seconds that a page must have left to go on with
    one more job; below it a new page begins."""

    page: float = 10.0
    size: int = 50
    enough: float = 1.0


class BulkDecider:
    """Carries bulk orders out, and wakes those who watch the jobs or could run them.

    Raises RequestIdReused, TenantNotFound and OverviewNotConfigured before anything is decided; Draining and
    errors of the database between two decisions.
    """

    def __init__(
        self,
        *,
        requests: BulkRequests,
        search: JobSearch,
        decisions: OperatorDecisions,
        tenants: TenantStore,
        notify: Notify,
        pace: BulkPace | None = None,
    ) -> None:
        self._requests = requests
        self._search = search
        self._decisions = decisions
        self._tenants = tenants
        self._notify = notify
        self._pace = pace or BulkPace()

    async def run(self, order: BulkOrder, *, send: Send, draining: asyncio.Event, budget: Budget) -> None:
        """Decides about every job that is meant, in the order of tenants and job ids."""
        until = await self._begin(order, budget=budget.child(self._pace.page))
        decide = self._foreseeing(order) if order.dry_run else self._deciding(order)
        place: Place | None = Place.first(order.meant)
        while place is not None:
            if draining.is_set():
                raise Draining
            page = budget.child(self._pace.page)
            place = await self._page(order, place, until, decide, send, budget=page)

    async def _begin(self, order: BulkOrder, *, budget: Budget) -> datetime | None:
        if order.meant.tenant is not None:
            await self._tenants.get(order.meant.tenant, budget=budget)
        if order.dry_run:
            return await self._requests.find(order, budget=budget)
        return await self._requests.take(order, budget=budget)

    async def _page(
        self,
        order: BulkOrder,
        after: Place,
        until: datetime | None,
        decide: Decide,
        send: Send,
        *,
        budget: Budget,
    ) -> Place | None:
        """Where the next page begins. When it breaks, what was decided is told first."""
        found = await self._search.page(
            order.population, order.meant, after=after, until=until, size=self._pace.size, budget=budget
        )
        outcomes: list[BulkOutcome] = []
        try:
            await decide(found.jobs, outcomes, budget)
        except Exception:
            await _tell_page(outcomes, send)
            raise
        await _tell_page(outcomes, send)
        done = len(outcomes)
        return found.next if done == len(found.jobs) else found.jobs[done - 1].place

    def _foreseeing(self, order: BulkOrder) -> Decide:
        foresight = Foresight(order=order)

        async def foresee(jobs: Sequence[FoundJob], outcomes: list[BulkOutcome], budget: Budget) -> None:
            outlooks = await self._requests.look(order, jobs, budget=budget)
            outcomes.extend(foresight.of(job, look) for job, look in zip(jobs, outlooks, strict=True))

        return foresee

    def _deciding(self, order: BulkOrder) -> Decide:
        async def decide(jobs: Sequence[FoundJob], outcomes: list[BulkOutcome], budget: Budget) -> None:
            for job in jobs:
                if outcomes and budget.remaining() < self._pace.enough:
                    return
                outcomes.append(await self._decide_unless_busy(order, job, outcomes, budget=budget))

        return decide

    async def _decide_unless_busy(
        self, order: BulkOrder, job: FoundJob, before: Sequence[BulkOutcome], *, budget: Budget
    ) -> BulkOutcome:
        """A row that somebody else would not let go is one job's matter; two in a row are the database's."""
        try:
            return await self._decide(order, job, budget=budget)
        except (DatabaseTimeout, DatabaseConflict) as error:
            if before and before[-1].refused == error.reason:
                raise
            return _refused(job, error.reason)

    async def _decide(self, order: BulkOrder, job: FoundJob, *, budget: Budget) -> BulkOutcome:
        """A refusal is an outcome."""
        if job.state is None:
            return _refused(job, JobNotFound.reason)
        try:
            state = await self._carry_out(order, _decision(order, job), budget=budget)
        except StoreError as error:
            return _refused(job, error.reason, error.metadata.get("state"))
        if state is None:
            return BulkOutcome(tenant=job.tenant, job_id=job.job_id, state=job.state, replayed=True)
        self._tell(job, state)
        return BulkOutcome(tenant=job.tenant, job_id=job.job_id, state=state)

    async def _carry_out(self, order: BulkOrder, decision: Decision, *, budget: Budget) -> JobState | None:
        """The job's new state; None when the decision was made before."""
        match order.action:
            case BulkAction.RETRY:
                return JobState.QUEUED if await self._decisions.retry(decision, budget=budget) else None
            case BulkAction.RESOLVE:
                assert order.resolution is not None, "an order to resolve says how"
                is_new = await self._decisions.resolve(decision, order.resolution, budget=budget)
                failed = order.resolution is Resolution.FAIL
                return (JobState.FAILED if failed else JobState.QUEUED) if is_new else None
            case BulkAction.CANCEL:
                return _state_after(await self._decisions.cancel(decision, budget=budget))
            case _:
                assert_never(order.action)

    def _tell(self, job: FoundJob, state: JobState) -> None:
        if state is JobState.RUNNING:
            self._notify(cancel_asked(job.tenant, job.job_id))
            return
        self._notify(job_changed(job.tenant, job.job_id))
        if state is JobState.QUEUED:
            self._notify(jobs_ready(job.lane))


async def _tell_page(outcomes: Sequence[BulkOutcome], send: Send) -> None:
    if outcomes:
        await send(outcomes)


def _decision(order: BulkOrder, job: FoundJob) -> Decision:
    return Decision(
        tenant=job.tenant,
        job_id=job.job_id,
        request_id=order.request_id_of(job.job_id),
        actor=order.request.actor,
        reason=order.request.reason,
    )


def _state_after(outcome: CancelOutcome | None) -> JobState | None:
    match outcome:
        case None:
            return None
        case CancelOutcome.CANCEL_REQUESTED:
            return JobState.RUNNING
        case _:
            return JobState.CANCELLED


def _refused(job: FoundJob, reason: str, state: str | None = None) -> BulkOutcome:
    return BulkOutcome(
        tenant=job.tenant,
        job_id=job.job_id,
        state=job.state if state is None else JobState(state),
        refused=reason,
    )
