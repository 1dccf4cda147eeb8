"""Who calls what, under which budget: what the interceptor hands to every handler."""

import asyncio
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import grpc

from budget.core import Budget
from servicekit.endings import Cut
from servicekit.errors import FieldViolation, InvalidRequest
from servicekit.identity.scopes import EVERY_SCOPE, Access, Scopes

TENANT_HEADER: Final = "x-tenant-id"
USER_HEADER: Final = "x-user-id"
NOBODY: Final = "nobody"
"""How callers are authenticated where nobody is."""
_TENANT: Final = re.compile(r"[a-z0-9-]{1,63}")
_USER: Final = re.compile(r"[\x21-\x7e]{1,128}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """The caller: a tenant and, inside it, a user.

    tenant: empty for a service that speaks for nobody. scopes: what the caller may do.
    authenticated_by: by what the caller proved it, without its secret: `token`, `api_key:ID`, `service:NAME`.
    """

    tenant: str
    user: str
    scopes: Scopes = EVERY_SCOPE
    authenticated_by: str = NOBODY


def no_admission() -> None:
    """What `Call.admit` does where nothing limits what is in flight."""


def no_cut() -> None:
    """What `Call.cut` answers where no timer of ours ends a handler."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request.

    method: full name with its leading slash, `/hourglass.jobs.v1.JobService/CreateJob`.
    traceparent, tracestate: W3C trace context of this server's span, or the caller's when nothing is traced.
    metadata: the text metadata of the request; values of a repeated key are joined by commas.
    draining: set when the server begins to shut down. Calls that wait should answer then.
    admit: a method whose admission is `deferred` calls it before its real work begins; raises
        servicekit.admission.Overloaded. For all others it does nothing.
    cut: for a handler that was cancelled: why our own timer did that; None when it was somebody else.
    """

    method: str
    budget: Budget
    principal: Principal
    traceparent: str
    tracestate: str
    metadata: Mapping[str, str]
    draining: asyncio.Event
    admit: Callable[[], None] = no_admission
    cut: Callable[[], Cut | None] = no_cut


def call_of(context: grpc.aio.ServicerContext[Any, Any]) -> Call:
    """The Call of a handler's context. TypeError when the interceptor is not in place."""
    call = getattr(context, "call", None)
    if not isinstance(call, Call):
        raise TypeError("the handler runs without the request interceptor")
    return call


def text_metadata(pairs: Iterable[tuple[str, str | bytes]] | None) -> Mapping[str, str]:
    """Metadata as a mapping: text values only, those of a repeated key joined by commas (RFC 9110, 5.3)."""
    values: dict[str, list[str]] = defaultdict(list)
    for key, value in pairs or ():
        if isinstance(value, str):
            values[key].append(value)
    return MappingProxyType({key: ",".join(texts) for key, texts in values.items()})


AuthContext = Mapping[str, Iterable[bytes]]
"""What the transport knows of the peer, such as the names in its certificate."""


class Arrival(NamedTuple):
    """A request before anybody knows whose it is.

    access: what its method asks for; None: nobody has said so.
    peer: looks at the transport, which costs some microseconds.
    """

    method: str
    access: Access | None
    metadata: Mapping[str, str]
    peer: Callable[[], AuthContext]


Authenticate = Callable[[Arrival, Budget], Awaitable[Principal]]
"""Finds out who calls and whether they may; spends from the request's budget."""


async def development_principal(arrival: Arrival, _budget: Budget) -> Principal:
    """Believes what the metadata says: for development, where nobody is authenticated.

    `x-tenant-id` defaults to `demo`, `x-user-id` to `anonymous`. InvalidRequest names what is malformed.
    """
    metadata = arrival.metadata
    tenant, user = metadata.get(TENANT_HEADER, "demo"), metadata.get(USER_HEADER, "anonymous")
    violations = (*tenant_faults(tenant), *user_faults(user))
    if violations:
        raise InvalidRequest(*violations)
    return Principal(tenant=tenant, user=user)


def tenant_faults(tenant: str) -> tuple[FieldViolation, ...]:
    """What is wrong with the text of `x-tenant-id`."""
    return () if is_tenant(tenant) else (FieldViolation(TENANT_HEADER, f"must match {_TENANT.pattern}"),)


def user_faults(user: str) -> tuple[FieldViolation, ...]:
    """What is wrong with the text of `x-user-id`."""
    if is_user(user):
        return ()
    return (FieldViolation(USER_HEADER, "must be 1 to 128 visible ASCII characters"),)


def is_tenant(text: str) -> bool:
    """Whether a text can name a tenant."""
    return _TENANT.fullmatch(text) is not None


def is_user(text: str) -> bool:
    """Whether a text can name a user."""
    return _USER.fullmatch(text) is not None
