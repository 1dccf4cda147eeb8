"""Where a page begins and ends, so that no statement reads more than a page, and no row lies between two.

Pages of jobs follow their facts, but a page is a range of ids: what has lost its facts lies in some page too.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias
from uuid import UUID

from budget.postgres import Transaction
from jobs_store.identifiers import TenantId
from jobs_store.invariants.registry import Scope
from jobs_store.operator_requests import NO_TENANT
from jobs_store.statements import statement

Place: TypeAlias = tuple[str, UUID]
"""A tenant and an id: the row with them belongs to the page before."""

_LOWEST: Final = UUID(int=0)
_HIGHEST: Final = UUID(int=2**128 - 1)
_BEFORE_ALL: Final = ("", _LOWEST)
_AFTER_ALL: Final = ("z" * 64, _HIGHEST)
"""No tenant's name is that long (see the CHECK of tenants)."""

PAGE_SIZES: Final = {
    Scope.JOBS: 1000,
    Scope.UNFINISHED_JOBS: 2000,
    Scope.CALLS: 5000,
    Scope.TENANTS: 20,
    Scope.LANES: 1,
    Scope.TABLES: 1,
}
_PAGE_STATEMENTS: Final = {
    Scope.JOBS: "find_page_of_jobs",
    Scope.UNFINISHED_JOBS: "find_page_of_unfinished_jobs",
    Scope.CALLS: "find_page_of_calls",
}
_COUNTS: Final = {Scope.LANES: "count_lanes", Scope.TABLES: "count_partitioned_tables"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """One page: what its statement is given, how many rows it is about, and where the next one begins.

    owner, subject: the tenant and the row, for a page of one. rest: None for the last page.
    """

    arguments: tuple[object, ...]
    count: int
    owner: str
    subject: str
    rest: Place | None


def beginning(tenant: TenantId | None) -> Place:
    """Before the first row of a tenant, or of all."""
    return _BEFORE_ALL if tenant is None else (tenant, _LOWEST)


async def next_page(
    transaction: Transaction, scope: Scope, begin: Place, size: int, tenant: TenantId | None
) -> Bounds:
    """The page of up to `size` rows after `begin`."""
    match scope:
        case Scope.TENANTS:
            return await _page_of_tenants(transaction, begin, size, tenant)
        case Scope.LANES | Scope.TABLES:
            count = await transaction.fetchval(statement(_COUNTS[scope]))
            return Bounds(arguments=(), count=count, owner="", subject=f"all {scope.lower()}", rest=None)
        case _:
            return await _page_by_id(transaction, scope, begin, size, tenant)


async def is_tenant(transaction: Transaction, tenant: TenantId) -> bool:
    """Whether there is such a tenant."""
    return bool(await transaction.fetch(statement("find_page_of_tenants"), "", tenant, 1))


async def _page_by_id(
    transaction: Transaction, scope: Scope, begin: Place, size: int, tenant: TenantId | None
) -> Bounds:
    """The last page goes on to the end of all ids, whether or not a row is there."""
    end = _AFTER_ALL if tenant is None else (tenant, _HIGHEST)
    row = await transaction.fetchrow(statement(_PAGE_STATEMENTS[scope]), *begin, *end, size)
    count = 0 if row is None else row["number"]
    if row is None or count < size:
        subject = f"all after {begin[1]}"
        return Bounds(arguments=(*begin, *end), count=count, owner=tenant or "", subject=subject, rest=None)
    last = (row["tenant_id"], row["id"])
    return Bounds(arguments=(*begin, *last), count=count, owner=last[0], subject=str(last[1]), rest=last)


async def _page_of_tenants(
    transaction: Transaction, begin: Place, size: int, tenant: TenantId | None
) -> Bounds:
    """What belongs to no tenant goes with the first page of all."""
    after = "" if tenant is not None else begin[0]
    rows = await transaction.fetch(statement("find_page_of_tenants"), after, tenant, size)
    found = [row["tenant_id"] for row in rows]
    nobody = [NO_TENANT] if begin == _BEFORE_ALL else []
    rest = (found[-1], _HIGHEST) if tenant is None and len(found) == size else None
    last = found[-1] if found else ""
    return Bounds(arguments=([*found, *nobody],), count=len(found), owner=last, subject=last, rest=rest)
