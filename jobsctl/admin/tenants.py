"""Tenants: who pays, what they have, and what they may do."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from hourglass.jobs.v1.admin_service_pb2 import (
    CreateTenantRequest,
    FundTenantRequest,
    GetTenantRequest,
    ListTenantsRequest,
    ListTenantsResponse,
    Tenant,
    TenantLimits,
    TenantRetention,
    UpdateTenantRequest,
)
from jobsctl import inputs
from jobsctl.decision import Decision, request_id_of, show_decided
from jobsctl.printer import Printer
from jobsctl.session import LARGEST_PAGE, Session
from presentation.values import dollars, moment, span
from servicekit.wire_time import duration_of, seconds_of

COLUMNS: Final = ("tenant", "funded", "available", "reserved", "charged", "queued", "running", "weight")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a tenant should be; None for what is not said.

    lifetimes: seconds by class; they replace all that it had. keep_default: back to the service's.
    """

    display_name: str | None = None
    max_running: int | None = None
    max_queued: int | None = None
    weight: int | None = None
    request_rate: float | None = None
    lifetimes: Sequence[tuple[str, float]] = ()
    keep_default: bool = False

    @property
    def limits(self) -> TenantLimits | None:
        """The limits that were said; None for none."""
        limits = TenantLimits(
            max_running_count=self.max_running,
            max_queued_count=self.max_queued,
            weight=self.weight,
            request_rate=self.request_rate,
        )
        return limits if limits.ListFields() else None

    @property
    def retention(self) -> TenantRetention | None:
        """The lifetimes that were said; an empty message for the service's, None for no change."""
        if self.lifetimes:
            named = {f"{name}_duration": duration_of(seconds) for name, seconds in self.lifetimes}
            return TenantRetention(**named)
        return TenantRetention() if self.keep_default else None


async def list_tenants(session: Session) -> None:
    """All tenants, by id."""
    found = ListTenantsResponse()
    while True:
        request = ListTenantsRequest(page_size=LARGEST_PAGE, page_token=found.next_page_token)
        page = await session.call("ListTenants", session.admin.ListTenants, request)
        found.tenants.extend(page.tenants)
        found.next_page_token = page.next_page_token
        if not page.next_page_token:
            break
    if session.printer.json:
        session.printer.message(found)
    else:
        _show_list(session.printer, found.tenants)


async def get(session: Session, tenant_id: str) -> None:
    """One tenant."""
    request = GetTenantRequest(tenant_id=tenant_id)
    answer = await session.call("GetTenant", session.admin.GetTenant, request)
    if session.printer.json:
        session.printer.message(answer)
    else:
        session.printer.facts(_facts(answer.tenant))


async def create(session: Session, tenant_id: str, wanted: Wanted, decision: Decision) -> None:
    """A tenant without funds."""
    request = CreateTenantRequest(
        tenant_id=tenant_id,
        display_name=wanted.display_name or "",
        limits=wanted.limits,
        retention=wanted.retention,
        request_id=request_id_of(decision, session.printer),
        reason=decision.reason,
    )
    answer = await session.call("CreateTenant", session.admin.CreateTenant, request)
    show_decided(session.printer, answer, _facts(answer.tenant))


async def update(session: Session, tenant_id: str, wanted: Wanted, decision: Decision) -> None:
    """Only what was said changes."""
    request = UpdateTenantRequest(
        tenant_id=tenant_id,
        limits=wanted.limits,
        retention=wanted.retention,
        display_name=wanted.display_name,
        request_id=request_id_of(decision, session.printer),
        reason=decision.reason,
    )
    answer = await session.call("UpdateTenant", session.admin.UpdateTenant, request)
    show_decided(session.printer, answer, _facts(answer.tenant))


async def fund(session: Session, tenant_id: str, amount: Decimal, decision: Decision) -> None:
    """Money comes in; a negative amount goes out."""
    request = FundTenantRequest(
        tenant_id=tenant_id,
        amount=inputs.money("AMOUNT", amount),
        request_id=request_id_of(decision, session.printer),
        reason=decision.reason,
    )
    answer = await session.call("FundTenant", session.admin.FundTenant, request)
    show_decided(session.printer, answer, _facts(answer.tenant))


def _show_list(printer: Printer, tenants: Iterable[Tenant]) -> None:
    printer.table(COLUMNS, map(_row, tenants), right=COLUMNS[1:])


def _row(tenant: Tenant) -> Sequence[str]:
    funds = tenant.funds
    return (
        tenant.tenant_id,
        dollars(funds.funded_amount),
        dollars(funds.available_amount),
        dollars(funds.reserved_amount),
        dollars(funds.captured_amount),
        f"{tenant.queued_count} of {tenant.limits.max_queued_count}",
        f"{tenant.running_count} of {tenant.limits.max_running_count}",
        str(tenant.limits.weight),
    )


def _facts(tenant: Tenant) -> Mapping[str, str]:
    funds = tenant.funds
    return {
        "tenant": tenant.tenant_id,
        "name": tenant.display_name,
        "funded": dollars(funds.funded_amount),
        "available": dollars(funds.available_amount),
        "reserved": dollars(funds.reserved_amount),
        "charged": dollars(funds.captured_amount),
        "queued": f"{tenant.queued_count} of {tenant.limits.max_queued_count}",
        "running": f"{tenant.running_count} of {tenant.limits.max_running_count}",
        "weight": str(tenant.limits.weight),
        "rate": _rate(tenant.limits),
        "keeps": _keeps(tenant.retention),
        "created": moment(tenant.create_time),
        "changed": moment(tenant.update_time),
    }


def _rate(limits: TenantLimits) -> str:
    return f"{limits.request_rate:g} requests a second" if limits.HasField("request_rate") else ""


def _keeps(retention: TenantRetention) -> str:
    """The lifetimes of its own, by class."""
    return ", ".join(
        f"{field.name.removesuffix('_duration')} {span(seconds_of(duration))}"
        for field, duration in retention.ListFields()
    )
