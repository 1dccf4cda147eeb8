"""Requests about tenants, checked: every violation of a request at once."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from hourglass.jobs.v1 import admin_service_pb2 as pb
from jobs_service.domain.faults import Faults
from jobs_service.domain.limits import HIGHEST_AMOUNT
from jobs_service.rpc.admin.checks import check_request, check_tenant
from jobs_store.identifiers import TenantId
from jobs_store.lifetimes import DAY, ImpossibleLifetimes, Lifetimes
from jobs_store.operator_requests import OperatorRequest
from jobs_store.tenants import Limits, OwnLifetimes, TenantChange
from servicekit.wire_money import MalformedMoney, amount_of
from servicekit.wire_time import MalformedTime, seconds_of

_LONGEST_NAME: Final = 255
_MOST_RUNNING: Final = 1_000_000
_MOST_QUEUED: Final = 1_000_000_000
_HEAVIEST: Final = 1000
_SLOWEST: Final = 0.001
_FASTEST: Final = 1_000_000.0
_LONGEST_LIFETIME: Final = 20 * 365 * DAY
_ZERO: Final = Decimal(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTenant:
    """CreateTenant, checked."""

    tenant: TenantId
    display_name: str
    limits: Limits
    retention: OwnLifetimes
    request: OperatorRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedTenant:
    """UpdateTenant, checked."""

    tenant: TenantId
    change: TenantChange
    request: OperatorRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Funding:
    """FundTenant, checked; dollars."""

    tenant: TenantId
    amount: Decimal
    request: OperatorRequest


def read_new_tenant(request: pb.CreateTenantRequest, actor: str, lifetimes: Lifetimes) -> NewTenant:
    """lifetimes: the service's. Raises InvalidRequest."""
    faults = Faults()
    tenant = check_tenant(request.tenant_id, faults)
    faults.check_text("display_name", request.display_name, shortest=0, longest=_LONGEST_NAME)
    asked = check_request(request, actor, faults)
    limits = _limits(request.limits, faults.within("limits"))
    retention = _retention(request.retention, lifetimes, faults.within("retention"))
    faults.raise_if_any()
    return NewTenant(
        tenant=tenant,
        display_name=request.display_name or request.tenant_id,
        limits=limits,
        retention=retention,
        request=asked,
    )


def read_change(request: pb.UpdateTenantRequest, actor: str, lifetimes: Lifetimes) -> ChangedTenant:
    """lifetimes: the service's. Raises InvalidRequest, also when nothing is to change."""
    faults = Faults()
    tenant = check_tenant(request.tenant_id, faults)
    asked = check_request(request, actor, faults)
    change = _change(request, lifetimes, faults)
    if change.empty:
        faults.add("limits", "set at least one field to change, here, in display_name or in retention")
    faults.raise_if_any()
    return ChangedTenant(tenant=tenant, change=change, request=asked)


def read_tenant_id(tenant_id: str) -> TenantId:
    """Raises InvalidRequest."""
    faults = Faults()
    tenant = check_tenant(tenant_id, faults)
    faults.raise_if_any()
    return tenant


def read_funding(request: pb.FundTenantRequest, actor: str) -> Funding:
    """Raises InvalidRequest."""
    faults = Faults()
    tenant = check_tenant(request.tenant_id, faults)
    asked = check_request(request, actor, faults)
    amount = _amount(request, faults)
    faults.raise_if_any()
    return Funding(tenant=tenant, amount=amount, request=asked)


def _limits(limits: pb.TenantLimits, faults: Faults) -> Limits:
    default = Limits()
    max_running, max_queued, weight = _present(limits, faults)
    rate = _rate(limits, faults)
    return Limits(
        max_running=default.max_running if max_running is None else max_running,
        max_queued=default.max_queued if max_queued is None else max_queued,
        weight=default.weight if weight is None else weight,
        request_rate=rate or None,
    )


def _change(request: pb.UpdateTenantRequest, lifetimes: Lifetimes, faults: Faults) -> TenantChange:
    name = request.display_name if request.HasField("display_name") else None
    if name is not None:
        faults.check_text("display_name", name, longest=_LONGEST_NAME)
    max_running, max_queued, weight = _present(request.limits, faults.within("limits"))
    rate = _rate(request.limits, faults.within("limits"))
    retention = _retention(request.retention, lifetimes, faults.within("retention"))
    return TenantChange(
        display_name=name,
        max_running=max_running,
        max_queued=max_queued,
        weight=weight,
        request_rate=rate,
        retention=retention if request.HasField("retention") else None,
    )


def _present(limits: pb.TenantLimits, faults: Faults) -> tuple[int | None, int | None, int | None]:
    """Jobs that may run, jobs that may wait, and the weight; None: absent."""
    max_running = limits.max_running_count if limits.HasField("max_running_count") else None
    max_queued = limits.max_queued_count if limits.HasField("max_queued_count") else None
    weight = limits.weight if limits.HasField("weight") else None
    _check(faults, "max_running_count", max_running, 0, _MOST_RUNNING)
    _check(faults, "max_queued_count", max_queued, 0, _MOST_QUEUED)
    _check(faults, "weight", weight, 1, _HEAVIEST)
    return max_running, max_queued, weight


def _rate(limits: pb.TenantLimits, faults: Faults) -> float | None:
    """Requests a second; 0: the service's; None: absent."""
    if not limits.HasField("request_rate"):
        return None
    if limits.request_rate != 0 and not _SLOWEST <= limits.request_rate <= _FASTEST:  # NaN neither
        faults.add("request_rate", f"must be 0, or between {_SLOWEST:g} and {_FASTEST:g} requests a second")
    return limits.request_rate


def _check(faults: Faults, field: str, value: int | None, lowest: int, highest: int) -> None:
    if value is not None:
        faults.check_range(field, value, lowest, highest)


def _retention(message: pb.TenantRetention, lifetimes: Lifetimes, faults: Faults) -> OwnLifetimes:
    """Its lifetimes must fit those that it takes from the service."""
    own = {}
    for field, duration in message.ListFields():
        try:
            seconds = seconds_of(duration)
        except MalformedTime as error:
            faults.add(field.name, str(error))
            continue
        faults.check_range(field.name, seconds, 0, _LONGEST_LIFETIME)
        own[field.name.removesuffix("_duration")] = seconds
    try:
        lifetimes.overridden({kind: max(0.0, seconds) for kind, seconds in own.items()})
    except ImpossibleLifetimes as error:
        for kind, fault in error.faults.items():
            faults.add(f"{kind}_duration", fault)
    return own


def _amount(request: pb.FundTenantRequest, faults: Faults) -> Decimal:
    if not request.HasField("amount"):
        faults.add("amount", "is required")
        return _ZERO
    try:
        amount = amount_of(request.amount)
    except MalformedMoney as error:
        faults.add("amount", str(error))
        return _ZERO
    if amount == _ZERO or abs(amount) > HIGHEST_AMOUNT:
        faults.add("amount", f"must not be 0, and at most {HIGHEST_AMOUNT:f} USD either way")
    return amount
