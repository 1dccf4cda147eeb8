"""Tenants: who pays, what they may do, and what they have."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from decimal import Decimal

from budget.core import Budget
from budget.errors import ConstraintViolation
from budget.postgres import Database, Record
from jobs_store.creation import PolicyOf
from jobs_store.errors import FundsTooLow, RequestIdReused, TenantExists, TenantNotFound
from jobs_store.identifiers import TenantId, new_audit_id
from jobs_store.operator_requests import Asked, OperatorRequest, take_request
from jobs_store.overview import Overview
from jobs_store.statements import statement
from jobs_store.stored_json import dump, load_object

OwnLifetimes = Mapping[str, float]
"""Seconds by class of `jobs_store.lifetimes`, where a tenant does not take the service's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a tenant may do. request_rate: requests a second to each server; None: the service's setting."""

    max_running: int = 100
    max_queued: int = 100_000
    weight: int = 1
    request_rate: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantChange:
    """What changes about a tenant; None: nothing. `retention` takes the place of all its own lifetimes, and a
    `request_rate` of 0 gives its own one up."""

    display_name: str | None = None
    max_running: int | None = None
    max_queued: int | None = None
    weight: int | None = None
    request_rate: float | None = None
    retention: OwnLifetimes | None = None

    @property
    def empty(self) -> bool:
        """True when nothing changes."""
        return all(value is None for value in asdict(self).values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A tenant; amounts in dollars, funded = available + reserved + captured."""

    tenant_id: TenantId
    display_name: str
    create_time: datetime
    update_time: datetime
    retention: OwnLifetimes
    max_running: int
    max_queued: int
    weight: int
    request_rate: float | None
    running: int
    queued: int
    funded: Decimal
    available: Decimal
    reserved: Decimal
    captured: Decimal


class TenantStore:
    """Tenants, as the request role with the tenant named."""

    def __init__(self, database: Database, policy_of: PolicyOf) -> None:
        self._database = database
        self._policy_of = policy_of

    async def create(self, tenant: TenantId, *, display_name: str, limits: Limits, budget: Budget) -> bool:
        """Make a tenant without funds; False when it exists."""
        policy = self._policy_of("create_tenant")
        async with self._database.transaction(budget, policy, tenants=[tenant]) as transaction:
            row = await transaction.fetchrow(
                statement("create_tenant"),
                tenant,
                display_name,
                limits.max_running,
                limits.max_queued,
                limits.weight,
                limits.request_rate,
            )
        return row is not None

    async def register(
        self,
        tenant: TenantId,
        *,
        display_name: str,
        limits: Limits,
        retention: OwnLifetimes,
        request: OperatorRequest,
        budget: Budget,
    ) -> bool:
        """Make a tenant without funds for an operator's request; False when this very request has made it.

        Raises RequestIdReused, TenantExists.
        """
        digest = _digest_of(display_name, limits, retention)
        policy = self._policy_of("register_tenant")
        async with self._database.transaction(budget, policy, tenants=[tenant]) as transaction:
            row = await transaction.fetchrow(
                statement("register_tenant"),
                tenant,
                display_name,
                limits.max_running,
                limits.max_queued,
                limits.weight,
                request.request_id,
                digest,
                request.actor,
                request.reason,
                new_audit_id(),
                dump(retention),
                limits.request_rate,
            )
            assert row is not None, "register_tenant answers one row"
            if row["is_new"]:
                return True
            known = await transaction.fetchrow(statement("find_operator_request"), tenant, request.request_id)
        if known is None:
            raise TenantExists(tenant)
        if (known["action"], known["request_digest"]) != ("CREATE_TENANT", digest):
            raise RequestIdReused(request.request_id)
        return False

    async def update(
        self, tenant: TenantId, change: TenantChange, request: OperatorRequest, *, budget: Budget
    ) -> bool:
        """Change what a tenant may do and how long its rows are kept; False when the request was known.

        Raises RequestIdReused, TenantNotFound.
        """
        changes = {name: value for name, value in asdict(change).items() if value is not None}
        asked = Asked(
            action="UPDATE_TENANT",
            content=("UPDATE_TENANT", tenant, changes),
            subject=f"tenant:{tenant}",
            details=changes,
        )
        policy = self._policy_of("update_tenant")
        async with self._database.transaction(budget, policy, tenants=[tenant]) as transaction:
            if not await take_request(transaction, tenant, request, asked):
                return False
            row = await transaction.fetchrow(
                statement("update_tenant"),
                tenant,
                change.display_name,
                change.max_running,
                change.max_queued,
                change.weight,
                None if change.retention is None else dump(change.retention),
                change.request_rate,
            )
            if row is None:
                raise TenantNotFound(tenant)
            return True

    async def fund(
        self,
        tenant: TenantId,
        amount: Decimal,
        *,
        request_id: str,
        actor: str,
        reason: str,
        budget: Budget,
    ) -> bool:
        """Move `amount` dollars in, or out when negative; False when the request_id was known.

        Raises TenantNotFound; FundsTooLow when more would go out than is available; RequestIdReused when the
        request_id has moved another amount.
        """
        policy = self._policy_of("fund_tenant")
        try:
            async with self._database.transaction(budget, policy, tenants=[tenant]) as transaction:
                row = await transaction.fetchrow(
                    statement("fund_tenant"), tenant, request_id, amount, actor, reason, new_audit_id()
                )
                moved = await transaction.fetchval(statement("find_funding"), tenant, request_id)
        except ConstraintViolation as error:
            if error.constraint == "fundings_tenant_id_fkey":
                raise TenantNotFound(tenant) from error
            if error.constraint == "tenant_funds_available_check":
                raise FundsTooLow(subject=f"tenant:{tenant}") from error
            raise
        assert row is not None, "fund_tenant answers one row"
        if row["is_new"]:
            return True
        if moved != amount:
            raise RequestIdReused(request_id)
        return False

    async def get(self, tenant: TenantId, *, budget: Budget) -> Tenant:
        """A tenant as it is. Raises TenantNotFound."""
        policy = self._policy_of("read_tenant")
        async with self._database.transaction(budget, policy, tenants=[tenant]) as transaction:
            row = await transaction.fetchrow(statement("read_tenant"), tenant)
        if row is None:
            raise TenantNotFound(tenant)
        return _tenant(row)

    async def request_rates(
        self, tenants: Sequence[TenantId], *, budget: Budget
    ) -> Mapping[TenantId, float | None]:
        """Requests a second of each tenant that there is; None for one without a rate of its own."""
        policy = self._policy_of("read_request_rates")
        async with self._database.transaction(budget, policy, tenants=tenants, reading=True) as transaction:
            rows = await transaction.fetch(statement("read_request_rates"), tenants)
        return {row["tenant_id"]: row["request_rate"] for row in rows}


class TenantDirectory:
    """All tenants there are."""

    def __init__(self, overview: Overview) -> None:
        self._overview = overview

    async def page(self, *, after: str, size: int, budget: Budget) -> list[Tenant]:
        """Up to `size` tenants with an id above `after`, by id."""
        return [_tenant(row) for row in await self._overview.read("list_tenants", after, size, budget=budget)]


def _tenant(row: Record) -> Tenant:
    return Tenant(**{**dict(row), "retention": load_object(row["retention"])})


def _digest_of(display_name: str, limits: Limits, retention: OwnLifetimes) -> bytes:
    asked: list[object] = [display_name, limits.max_running, limits.max_queued, limits.weight]
    if retention:
        asked.append(retention)
    if limits.request_rate is not None:
        asked.append(limits.request_rate)
    return hashlib.sha256(dump(asked).encode()).digest()
