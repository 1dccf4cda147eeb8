"""ListJobs: a tenant's jobs, newest first, page by page (AIP-158)."""

from collections.abc import Sequence
from dataclasses import dataclass

from budget.core import Budget
from jobs_service.domain.page_token import page_token
from jobs_store.identifiers import JobId, TenantId
from jobs_store.reading import JobFilter, JobReader, JobView


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """A page, checked: the jobs of a filter that are older than `before`."""

    wanted: JobFilter
    before: JobId
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some jobs; `next_token` is empty on the last page."""

    jobs: Sequence[JobView]
    next_token: str


async def list_page(reader: JobReader, tenant: TenantId, request: PageRequest, *, budget: Budget) -> Page:
    """One row more than asked for tells whether there is another page."""
    jobs = await reader.page(
        tenant, request.wanted, before=request.before, size=request.size + 1, budget=budget
    )
    shown = jobs[: request.size]
    more = len(jobs) > request.size
    token = page_token(shown[-1].job_id, tenant=tenant, wanted=request.wanted) if more else ""
    return Page(jobs=shown, next_token=token)
