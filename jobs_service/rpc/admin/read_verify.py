"""Requests to verify, checked: every violation of a request at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap

from hourglass.jobs.v1 import admin_service_pb2 as pb
from jobs_service.domain.faults import Faults
from jobs_service.rpc.admin.checks import check_tenant
from jobs_store.identifiers import TenantId
from jobs_store.invariants.registry import INVARIANTS

_DESCRIPTION_LENGTH = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Verify, checked. names: empty for all. tenant: None for all."""

    names: Sequence[str]
    tenant: TenantId | None


def read_verify(request: pb.VerifyRequest) -> Wanted:
    """Raises InvalidRequest; with a name that is not known it lists those that are."""
    faults = Faults()
    tenant = check_tenant(request.tenant_id, faults) if request.tenant_id else None
    known = [_check_name(name, f"invariants[{at}]", faults) for at, name in enumerate(request.invariants)]
    if not all(known):
        for names in wrap(" ".join(INVARIANTS), _DESCRIPTION_LENGTH):
            faults.add("invariants", f"known are {names}")
    elif tenant is not None:
        _check_scopes(request.invariants, faults)
    faults.raise_if_any()
    return Wanted(names=list(request.invariants), tenant=tenant)


def _check_name(name: str, field: str, faults: Faults) -> bool:
    known = name in INVARIANTS
    if not known:
        faults.add(field, f"no invariant is called {name!r}")
    return known


def _check_scopes(names: Sequence[str], faults: Faults) -> None:
    for at, name in enumerate(names):
        if not INVARIANTS[name].scope.of_tenants:
            faults.add(f"invariants[{at}]", f"{name} is about no tenant: leave tenant_id empty")
