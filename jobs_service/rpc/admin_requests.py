"""Requests of operators, checked: every violation of a request at once."""

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from hourglass.jobs.v1 import admin_service_pb2 as pb
from jobs_service.domain.faults import Faults
from jobs_service.domain.limits import HIGHEST_AMOUNT, LONGEST_KEY, LONGEST_REASON
from jobs_store.identifiers import TenantId
from jobs_store.tenants import Limits
from servicekit.wire_money import MalformedMoney, amount_of

_TENANT: Final = re.compile(r"[a-z0-9-]{1,63}")
_LONGEST_NAME: Final = 255
_MOST_RUNNING: Final = 1_000_000
_MOST_QUEUED: Final = 1_000_000_000
_HEAVIEST: Final = 1000
_ZERO: Final = Decimal(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTenant:
    """CreateTenant, checked."""

    tenant: TenantId
    display_name: str
    limits: Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Funding:
    """FundTenant, checked; dollars."""

    tenant: TenantId
    amount: Decimal


def read_new_tenant(request: pb.CreateTenantRequest) -> NewTenant:
    """Raises InvalidRequest."""
    faults = Faults()
    tenant = _tenant(request.tenant_id, faults)
    faults.check_text("display_name", request.display_name, shortest=0, longest=_LONGEST_NAME)
    _check_request(request, faults)
    limits = _limits(request.limits, faults.within("limits"))
    faults.raise_if_any()
    return NewTenant(tenant=tenant, display_name=request.display_name or request.tenant_id, limits=limits)


def read_tenant_id(tenant_id: str) -> TenantId:
    """Raises InvalidRequest."""
    faults = Faults()
    tenant = _tenant(tenant_id, faults)
    faults.raise_if_any()
    return tenant


def read_funding(request: pb.FundTenantRequest) -> Funding:
    """Raises InvalidRequest."""
    faults = Faults()
    tenant = _tenant(request.tenant_id, faults)
    _check_request(request, faults)
    amount = _amount(request, faults)
    faults.raise_if_any()
    return Funding(tenant=tenant, amount=amount)


def _tenant(tenant_id: str, faults: Faults) -> TenantId:
    if not _TENANT.fullmatch(tenant_id):
        faults.add("tenant_id", f"must match {_TENANT.pattern}" if tenant_id else "is required")
    return TenantId(tenant_id)


def _check_request(request: pb.CreateTenantRequest | pb.FundTenantRequest, faults: Faults) -> None:
    faults.check_text("request_id", request.request_id, longest=LONGEST_KEY)
    faults.check_text("reason", request.reason, longest=LONGEST_REASON)


def _limits(limits: pb.TenantLimits, faults: Faults) -> Limits:
    default = Limits()
    found = Limits(
        max_running=(
            limits.max_running_count if limits.HasField("max_running_count") else default.max_running
        ),
        max_queued=limits.max_queued_count if limits.HasField("max_queued_count") else default.max_queued,
        weight=limits.weight if limits.HasField("weight") else default.weight,
    )
    faults.check_range("max_running_count", found.max_running, 0, _MOST_RUNNING)
    faults.check_range("max_queued_count", found.max_queued, 0, _MOST_QUEUED)
    faults.check_range("weight", found.weight, 1, _HEAVIEST)
    return found


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
