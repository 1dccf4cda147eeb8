"""What the requests of operators have in common."""

import re
from dataclasses import dataclass
from typing import Final, Protocol

from jobs_service.domain.faults import Faults
from jobs_service.domain.limits import LONGEST_KEY, LONGEST_REASON
from jobs_service.domain.name_token import name_of
from jobs_service.domain.page_token import MalformedToken
from jobs_service.rpc.requests import DEFAULT_PAGE_SIZE, LARGEST_PAGE_SIZE
from jobs_store.identifiers import TenantId
from jobs_store.operator_requests import OperatorRequest

TENANT: Final = re.compile(r"[a-z0-9-]{1,63}")
LONGEST_LANE: Final = 255


class NamesItself(Protocol):
    """A request that is carried out once."""

    @property
    def request_id(self) -> str:
        """Its name."""

    @property
    def reason(self) -> str:
        """For the record."""


class AsksForPage(Protocol):
    """A request for a page of names."""

    @property
    def page_size(self) -> int:
        """0: the default."""

    @property
    def page_token(self) -> str:
        """Empty: the first page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamePage:
    """A page of a list that goes by name, checked. `start`: what its token says."""

    start: str
    size: int


def check_tenant(tenant_id: str, faults: Faults, field: str = "tenant_id") -> TenantId:
    """A tenant's id."""
    if not TENANT.fullmatch(tenant_id):
        faults.add(field, f"must match {TENANT.pattern}" if tenant_id else "is required")
    return TenantId(tenant_id)


def check_request(request: NamesItself, actor: str, faults: Faults) -> OperatorRequest:
    """Who asks, and why; the actor is the principal."""
    faults.check_text("request_id", request.request_id, longest=LONGEST_KEY)
    faults.check_text("reason", request.reason, longest=LONGEST_REASON)
    return OperatorRequest(request_id=request.request_id, actor=actor, reason=request.reason)


def read_name_page(request: AsksForPage, method: str) -> NamePage:
    """Raises InvalidRequest."""
    faults = Faults()
    if request.page_size < 0:
        faults.add("page_size", "must not be negative")
    start = ""
    try:
        start = name_of(request.page_token, method)
    except MalformedToken as error:
        faults.add("page_token", str(error))
    faults.raise_if_any()
    return NamePage(start=start, size=min(request.page_size or DEFAULT_PAGE_SIZE, LARGEST_PAGE_SIZE))
