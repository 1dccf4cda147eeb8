"""Verification as a product runs it: as the read-only role."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from budget.postgres import Database
from jobs_store.identifiers import TenantId
from jobs_store.verification import Page, Verification, VerificationTerms
from tests.postgres import TestDatabase
from tests.store import policy_of, time_enough

Found = dict[str, list[tuple[str, str]]]
"""By invariant, the tenants and subjects that break it."""


@asynccontextmanager
async def verifying(
    database: TestDatabase, terms: VerificationTerms | None = None
) -> AsyncIterator[Verification]:
    """A connection that can change nothing."""
    opened = await Database.open(database.readonly, budget=time_enough(), size=1, application_name="verify")
    try:
        yield Verification(opened, policy_of, terms=terms)
    finally:
        await opened.close(time_enough())


async def pages_of(
    database: TestDatabase,
    terms: VerificationTerms | None = None,
    *,
    tenant: TenantId | None = None,
    names: Iterable[str] = (),
) -> list[Page]:
    """Every page."""
    async with verifying(database, terms) as verification:
        return [
            page async for page in verification.pages(budget_of_page=time_enough, tenant=tenant, names=names)
        ]


def found_in(pages: Iterable[Page]) -> Found:
    """What breaks what."""
    found: Found = {}
    for page in pages:
        for each in page.violations:
            found.setdefault(page.invariant, []).append((each.tenant, each.subject))
    return found
