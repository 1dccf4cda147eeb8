"""Which jobs an operator means, over all tenants: found page by page, each a bounded look at an index."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, Self
from uuid import UUID

from budget.core import Budget
from budget.postgres import Record
from jobs_store.identifiers import JobId, TenantId
from jobs_store.overview import Overview
from jobs_store.states import JobState

LOOKED_AT: Final = 1000
"""Jobs that one page looks at, whatever the filter leaves of them."""


class Population(StrEnum):
    """Where jobs are looked for, by the statement that does it."""

    FAILED = "find_failed_jobs"
    HELD = "find_held_jobs"
    UNFINISHED = "find_unfinished_jobs"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsMeant:
    """All fields must agree; None, and no job_ids: any. job_ids come with a tenant, in order, each once."""

    tenant: TenantId | None = None
    lane: str | None = None
    state_cause: str | None = None
    created_from: datetime | None = None
    created_before: datetime | None = None
    job_ids: tuple[JobId, ...] = ()

    def to_json(self) -> dict[str, object]:
        """What is set, as the audit log has it."""
        fields: dict[str, object] = {
            "tenant_id": self.tenant,
            "lane": self.lane,
            "state_cause": self.state_cause,
            "create_time_from": self.created_from,
            "create_time_before": self.created_before,
            "job_ids": list(self.job_ids) or None,
        }
        return {name: value for name, value in fields.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place in the order of tenants and job ids: right after this job."""

    tenant: str
    job_id: UUID

    @classmethod
    def first(cls, meant: JobsMeant) -> Self:
        """Before all that are meant."""
        return cls(tenant=meant.tenant or "", job_id=UUID(int=0))


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundJob:
    """A job that is meant. state: None for one that was named and that there is not."""

    tenant: TenantId
    job_id: JobId
    lane: str = ""
    state: JobState | None = None

    @property
    def place(self) -> Place:
        """Right after it."""
        return Place(tenant=self.tenant, job_id=self.job_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPage:
    """Some jobs in order, perhaps none; `next`: where to go on, None at the end."""

    jobs: Sequence[FoundJob]
    next: Place | None


class JobSearch:
    """Finds what decisions will be about. Nothing is locked: a decision checks again under its own lock."""

    def __init__(self, overview: Overview, *, looked_at: int = LOOKED_AT) -> None:
        self._overview = overview
        self._looked_at = looked_at

    async def page(
        self,
        population: Population,
        meant: JobsMeant,
        *,
        after: Place,
        until: datetime | None,
        size: int,
        budget: Budget,
    ) -> FoundPage:
        """Up to `size` jobs that have belonged to the population since `until` (None: that do now).

        Jobs that are named come all, wherever they stand.
        """
        if meant.job_ids:
            return await self._named(meant, after=after, size=size, budget=budget)
        rows = await self._overview.read(
            population,
            after.tenant,
            after.job_id,
            meant.tenant,
            meant.lane,
            meant.state_cause,
            meant.created_from,
            meant.created_before,
            until,
            self._looked_at,
            size,
            budget=budget,
        )
        return _page(rows, size, looked_at=self._looked_at)

    async def _named(self, meant: JobsMeant, *, after: Place, size: int, budget: Budget) -> FoundPage:
        assert meant.tenant is not None, "named jobs come with a tenant"
        left = [job_id for job_id in meant.job_ids if job_id > after.job_id]
        rows = await self._overview.read(
            "find_listed_jobs",
            meant.tenant,
            left[:size],
            meant.lane,
            meant.state_cause,
            meant.created_from,
            meant.created_before,
            budget=budget,
        )
        found = {row["id"]: row for row in rows}
        jobs = [_named_job(meant.tenant, job_id, found.get(job_id)) for job_id in left[:size]]
        return FoundPage(jobs=jobs, next=jobs[-1].place if len(left) > size else None)


def _page(rows: Sequence[Record], size: int, *, looked_at: int) -> FoundPage:
    """A full page goes on after its last job; another one after what was looked at, if that was the most."""
    jobs = [_job(row) for row in rows if row["id"] is not None]
    if len(jobs) == size:
        return FoundPage(jobs=jobs, next=jobs[-1].place)
    if not rows or rows[0]["looked_at"] < looked_at:
        return FoundPage(jobs=jobs, next=None)
    return FoundPage(jobs=jobs, next=Place(tenant=rows[0]["last_tenant_id"], job_id=rows[0]["last_id"]))


def _job(row: Record) -> FoundJob:
    return FoundJob(tenant=row["tenant_id"], job_id=row["id"], lane=row["lane"], state=JobState(row["state"]))


def _named_job(tenant: TenantId, job_id: JobId, row: Record | None) -> FoundJob:
    if row is None:
        return FoundJob(tenant=tenant, job_id=job_id)
    return FoundJob(tenant=tenant, job_id=job_id, lane=row["lane"], state=JobState(row["state"]))
