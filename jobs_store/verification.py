"""Verifies a live database: every invariant, page by page, and names what breaks it.

A page is one transaction that only reads, under a budget of its own. It takes no lock, holds no snapshot
longer than its statement runs, and what it answers is bounded. A page whose time is over is tried again in
smaller pieces; a single row that takes too long is named as unchecked, and the rest goes on.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from budget.core import Budget
from budget.errors import BudgetError, BudgetExhausted, DatabaseTimeout, PoolTimeout
from budget.postgres import Database, Record, Transaction
from jobs_store.call_reaping import CALL_GRACE
from jobs_store.creation import PolicyOf
from jobs_store.errors import TenantNotFound
from jobs_store.identifiers import TenantId
from jobs_store.invariants.paging import PAGE_SIZES, Bounds, Place, beginning, is_tenant, next_page
from jobs_store.invariants.registry import INVARIANTS, Given, Invariant
from jobs_store.statements import statement
from jobs_store.transitions import TRANSITIONS
from jobs_store.verification_metrics import VerificationMetrics

METHOD: Final = "verify"
UNCHECKED: Final = "UNCHECKED"
"""What rows are counted under that could not be looked at."""
"""The name of the policy that bounds each page."""
_SHRINK: Final = 4
_ARROWS: Final = tuple(f"{arrow.source or ''}/{arrow.target}/{arrow.cause}" for arrow in TRANSITIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationTerms:
    """overdue: seconds after which what a reaper does counts as not done: two of its rounds, and its wait
    after a reconnect. call_grace: after a call's deadline, until a reaper settles it. most_rows: of a page;
    None: as many as suit the invariant. most_violations: in one answer, the next of which goes on.
    """

    overdue: float = 20.0
    call_grace: float = CALL_GRACE
    most_rows: int | None = None
    most_violations: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """What breaks an invariant: a row, or rows that belong together. tenant: empty for what has none."""

    tenant: str
    subject: str
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What was found of one invariant in one range.

    checked: rows that were looked at; 0 where violations of the page before go on.
    unchecked: rows that took longer than a page's budget allows, so that nobody knows.
    """

    invariant: str
    checked: int
    violations: Sequence[Violation] = ()
    unchecked: Sequence[Violation] = ()


class UnknownInvariants(ValueError):
    """There is no invariant of this name."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        super().__init__(f"{', '.join(names)}: known are {', '.join(INVARIANTS)}")


class NotOfTenants(ValueError):
    """An invariant about no tenant cannot be verified for one."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        super().__init__(f"{', '.join(names)}: is about no single tenant")


class Verification:
    """Verifies as a role that sees all tenants: the read-only one, which cannot change anything."""

    def __init__(
        self,
        database: Database,
        policy_of: PolicyOf,
        *,
        terms: VerificationTerms | None = None,
        metrics: VerificationMetrics | None = None,
    ) -> None:
        self._database = database
        self._policy_of = policy_of
        self._terms = terms or VerificationTerms()
        self._metrics = metrics or VerificationMetrics()

    async def pages(
        self,
        *,
        budget_of_page: Callable[[], Budget],
        tenant: TenantId | None = None,
        names: Iterable[str] = (),
    ) -> AsyncIterator[Page]:
        """Every page of the invariants in `names` (all when empty), of one tenant or of all.

        budget_of_page: answers the budget of the next page; when one is already over, verifying ends with
        BudgetTooLow. Raises UnknownInvariants, NotOfTenants, TenantNotFound, and what a database raises.
        """
        wanted = chosen(names := tuple(names), tenant)
        found = Counter({invariant.name: 0 for invariant in wanted})
        if tenant is not None:
            await self._require(tenant, budget_of_page())
        for invariant in wanted:
            async for page in self._pages_of(invariant, tenant, budget_of_page):
                found[page.invariant] += len(page.violations)
                found[UNCHECKED] += len(page.unchecked)
                yield page
        if tenant is None and not names:
            self._metrics.ended(found)

    async def _pages_of(
        self, invariant: Invariant, tenant: TenantId | None, budget_of_page: Callable[[], Budget]
    ) -> AsyncIterator[Page]:
        most = size = min(PAGE_SIZES[invariant.scope], self._terms.most_rows or PAGE_SIZES[invariant.scope])
        place: Place | None = beginning(tenant)
        while place is not None:
            try:
                bounds, rows = await self._check(invariant, place, size, tenant, budget_of_page())
            except (DatabaseTimeout, BudgetExhausted) as error:
                if isinstance(error, PoolTimeout):
                    raise
                if size > 1:
                    size = max(1, size // _SHRINK)
                    continue
                bounds = await self._bounds(invariant, place, tenant, budget_of_page())
                yield _unchecked(invariant, bounds, error)
            else:
                for page in self._told(invariant, bounds, rows):
                    yield page
                size = min(most, 2 * size)
            place = bounds.rest

    async def _require(self, tenant: TenantId, budget: Budget) -> None:
        policy = self._policy_of(METHOD)
        async with self._database.transaction(budget, policy, reading=True) as transaction:
            if not await is_tenant(transaction, tenant):
                raise TenantNotFound(tenant)

    async def _check(
        self, invariant: Invariant, begin: Place, size: int, tenant: TenantId | None, budget: Budget
    ) -> tuple[Bounds, list[Record]]:
        policy = self._policy_of(METHOD)
        async with self._database.transaction(budget, policy, reading=True) as transaction:
            bounds = await _find(transaction, invariant, begin, size, tenant)
            given = given_to(invariant, self._terms)
            return bounds, await transaction.fetch(invariant.sql, *bounds.arguments, *given)

    async def _bounds(
        self, invariant: Invariant, begin: Place, tenant: TenantId | None, budget: Budget
    ) -> Bounds:
        policy = self._policy_of(METHOD)
        async with self._database.transaction(budget, policy, reading=True) as transaction:
            return await _find(transaction, invariant, begin, 1, tenant)

    def _told(self, invariant: Invariant, bounds: Bounds, rows: list[Record]) -> list[Page]:
        found = [
            Violation(tenant=row["tenant_id"], subject=row["subject"], description=row["description"])
            for row in rows
        ]
        most = self._terms.most_violations
        return [
            Page(
                invariant=invariant.name,
                checked=0 if start else bounds.count,
                violations=found[start : start + most],
            )
            for start in range(0, max(1, len(found)), most)
        ]


def chosen(names: Iterable[str], tenant: TenantId | None) -> list[Invariant]:
    """The invariants of these names; when there are none, all that can be verified.

    Raises UnknownInvariants, and NotOfTenants for one that was named and is about no tenant.
    """
    asked = list(dict.fromkeys(names))
    if unknown := [name for name in asked if name not in INVARIANTS]:
        raise UnknownInvariants(unknown)
    wanted = [INVARIANTS[name] for name in asked] or list(INVARIANTS.values())
    fitting = [each for each in wanted if tenant is None or each.scope.of_tenants]
    if asked and len(fitting) < len(wanted):
        raise NotOfTenants([each.name for each in wanted if each not in fitting])
    return fitting


def given_to(invariant: Invariant, terms: VerificationTerms) -> tuple[object, ...]:
    """The arguments of an invariant's statement that follow its page."""
    values: Mapping[Given, object] = {
        Given.TRANSITIONS: _ARROWS,
        Given.OVERDUE: terms.overdue,
        Given.CALL_GRACE: terms.call_grace,
    }
    return tuple(values[given] for given in invariant.given)


async def _find(
    transaction: Transaction, invariant: Invariant, begin: Place, size: int, tenant: TenantId | None
) -> Bounds:
    await transaction.fetchrow(statement("plan_by_index"))
    return await next_page(transaction, invariant.scope, begin, size, tenant)


def _unchecked(invariant: Invariant, bounds: Bounds, error: BudgetError) -> Page:
    """The page of the one row, or tenant, that takes too long."""
    named = Violation(
        tenant=bounds.owner, subject=bounds.subject, description=f"could not be looked at: {error}"
    )
    return Page(invariant=invariant.name, checked=0, unchecked=(named,))
