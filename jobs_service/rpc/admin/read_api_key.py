"""Requests about API keys, checked: every violation of a request at once."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from hourglass.jobs.v1 import admin_service_pb2 as pb
from jobs_service.domain.faults import Faults
from jobs_service.rpc.admin.checks import check_request, check_tenant
from jobs_store.identifiers import TenantId
from jobs_store.operator_requests import OperatorRequest
from servicekit.call import user_faults
from servicekit.identity.scopes import Scope
from servicekit.wire_time import MalformedTime, datetime_of

_KEY_ID: Final = re.compile(r"[a-z2-7]{16}")
_SCOPES: Final = frozenset(scope.value for scope in Scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedKey:
    """CreateApiKey, checked."""

    tenant: TenantId
    user: str
    scopes: tuple[str, ...]
    expire_time: datetime | None
    request: OperatorRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokedKey:
    """RevokeApiKey, checked."""

    tenant: TenantId
    key_id: str
    request: OperatorRequest


def read_new_key(request: pb.CreateApiKeyRequest, actor: str, *, now: datetime) -> WantedKey:
    """Raises InvalidRequest."""
    faults = Faults()
    tenant = check_tenant(request.tenant_id, faults)
    for violation in user_faults(request.user_id):
        faults.add("user_id", violation.description if request.user_id else "is required")
    scopes = _scopes(request, faults)
    expire_time = _expire_time(request, faults, now=now)
    asked = check_request(request, actor, faults)
    faults.raise_if_any()
    return WantedKey(
        tenant=tenant, user=request.user_id, scopes=scopes, expire_time=expire_time, request=asked
    )


def read_revocation(request: pb.RevokeApiKeyRequest, actor: str) -> RevokedKey:
    """Raises InvalidRequest."""
    faults = Faults()
    tenant = check_tenant(request.tenant_id, faults)
    if not _KEY_ID.fullmatch(request.key_id):
        faults.add("key_id", f"must match {_KEY_ID.pattern}" if request.key_id else "is required")
    asked = check_request(request, actor, faults)
    faults.raise_if_any()
    return RevokedKey(tenant=tenant, key_id=request.key_id, request=asked)


def _scopes(request: pb.CreateApiKeyRequest, faults: Faults) -> tuple[str, ...]:
    if not request.scopes:
        faults.add("scopes", "is required")
    for index, scope in enumerate(request.scopes):
        if scope not in _SCOPES:
            faults.add(f"scopes[{index}]", f"must be one of {', '.join(scope.value for scope in Scope)}")
    return tuple(sorted(set(request.scopes)))


def _expire_time(request: pb.CreateApiKeyRequest, faults: Faults, *, now: datetime) -> datetime | None:
    if not request.HasField("expire_time"):
        return None
    try:
        moment = datetime_of(request.expire_time).astimezone(UTC)
    except MalformedTime as error:
        faults.add("expire_time", str(error))
        return None
    if moment <= now:
        faults.add("expire_time", "must lie in the future")
    return moment
