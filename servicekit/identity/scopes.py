"""What a caller may do, and what each method asks for."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Scope(StrEnum):
    """One permission. None contains another: whoever may write and also look needs both."""

    READ = "read"
    """States, attempts, costs."""
    READ_CONTENT = "read-content"
    """Payloads, results, token text."""
    WRITE = "write"
    """Jobs and calls: what costs money, and what is decided about them."""
    ADMIN = "admin"
    """AdminService, for all tenants."""


Scopes = frozenset[Scope]
EVERY_SCOPE: Final[Scopes] = frozenset(Scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What a method asks of its caller.

    scopes: all of them are needed. of_tenant: it is about the caller's own tenant, so a service that calls it
    has to say for which one it speaks.
    """

    scopes: Scopes
    of_tenant: bool = True


def needs(*scopes: Scope, of_tenant: bool = True) -> Access:
    """The access of a method that needs all of these scopes."""
    return Access(scopes=frozenset(scopes), of_tenant=of_tenant)


def known_scopes(names: Iterable[str]) -> Scopes:
    """The scopes among names; others belong to other services."""
    return frozenset(Scope(name) for name in names if name in _NAMES)


def spelled(scopes: Iterable[Scope]) -> str:
    """Scopes as text, in the order of their definition."""
    wanted = set(scopes)
    return " ".join(scope for scope in Scope if scope in wanted)


_NAMES: Final = frozenset(scope.value for scope in Scope)
