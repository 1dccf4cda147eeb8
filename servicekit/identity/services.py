"""Services that are trusted to say for whom they call: other processes of ours, and the edge.

A service is known by its certificate (mTLS) or by the subject of its token; whatever else a request says of
itself is worth nothing. Only such a service may name a tenant, a user and scopes in its metadata.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from servicekit.call import (
    TENANT_HEADER,
    USER_HEADER,
    Arrival,
    AuthContext,
    Principal,
    tenant_faults,
    user_faults,
)
from servicekit.errors import FieldViolation, InvalidRequest
from servicekit.identity.errors import DelegationRefused, UnknownService
from servicekit.identity.scopes import Scope, Scopes, known_scopes

SCOPES_HEADER: Final = "x-scopes"
_DELEGATION: Final = (TENANT_HEADER, USER_HEADER, SCOPES_HEADER)
_CERTIFICATE_NAMES: Final = ("peer_uri", "peer_dns")
"""Where core shows the subject alternative names of a verified certificate. The common name is none."""

ServiceName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{1,63}$")]
Name = Annotated[str, StringConstraints(min_length=1, max_length=255)]


class ServiceRule(BaseModel):
    """A service as configured.

    name: how logs and jobs call it. certificates: URI or DNS names in its certificate, each as a whole.
    subjects: of its tokens. scopes: the most that it may do, for whomever it speaks.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: ServiceName
    certificates: tuple[Name, ...] = ()
    subjects: tuple[Name, ...] = ()
    scopes: frozenset[Scope] = Field(min_length=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A caller that is a service."""

    name: str
    scopes: Scopes


class Services:
    """The services of the configuration. ValueError when two of them share a name."""

    def __init__(self, rules: Sequence[ServiceRule]) -> None:
        self._by_certificate = _index(rules, {rule.name: rule.certificates for rule in rules})
        self._by_subject = _index(rules, {rule.name: rule.subjects for rule in rules})

    @property
    def by_certificate(self) -> bool:
        """Whether any is known by its certificate."""
        return bool(self._by_certificate)

    def of_subject(self, subject: str) -> Service | None:
        """The service whose tokens have this subject."""
        return self._by_subject.get(subject)

    def of_peer(self, peer: AuthContext) -> Service | None:
        """The service of the peer's certificate; None without one. UnknownService for anybody else's."""
        names = [name.decode(errors="replace") for key in _CERTIFICATE_NAMES for name in peer.get(key, ())]
        found = next((self._by_certificate[name] for name in names if name in self._by_certificate), None)
        if found is None and "x509_pem_cert" in peer:
            raise UnknownService
        return found


def _index(rules: Sequence[ServiceRule], names: Mapping[str, Sequence[str]]) -> Mapping[str, Service]:
    index: dict[str, Service] = {}
    for rule in rules:
        for name in names[rule.name]:
            if name in index:
                raise ValueError(f"{name} stands for two services")
            index[name] = Service(name=rule.name, scopes=rule.scopes)
    return index


def spoken_for(service: Service, arrival: Arrival) -> Principal:
    """For whom a service calls. InvalidRequest when its metadata is malformed, or names no tenant where the
    method is about one."""
    metadata = arrival.metadata
    tenant, user = metadata.get(TENANT_HEADER, ""), metadata.get(USER_HEADER, service.name)
    violations = [*(tenant_faults(tenant) if tenant else ()), *user_faults(user)]
    if not tenant and (arrival.access is None or arrival.access.of_tenant):
        violations.append(FieldViolation(TENANT_HEADER, "is required: a service says for whom it calls"))
    if violations:
        raise InvalidRequest(*violations)
    return Principal(
        tenant=tenant,
        user=user,
        scopes=_narrowed(service.scopes, metadata),
        authenticated_by=f"service:{service.name}",
    )


def refuse_delegation(metadata: Mapping[str, str]) -> None:
    """DelegationRefused when somebody says in the metadata who they are."""
    for header in _DELEGATION:
        if header in metadata:
            raise DelegationRefused(header)


def _narrowed(scopes: Scopes, metadata: Mapping[str, str]) -> Scopes:
    wanted = metadata.get(SCOPES_HEADER)
    return scopes if wanted is None else scopes & known_scopes(wanted.replace(",", " ").split())
