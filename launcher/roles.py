"""How the services reach the database: each as its own role, on the server that the owner's DSN names."""

import hmac
from collections.abc import Sequence
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

REQUEST: Final = "hourglass_request"
WORKER: Final = "hourglass_worker"
READONLY: Final = "hourglass_readonly"
ROLES: Final[Sequence[str]] = (REQUEST, WORKER, READONLY)


def role_dsn(owner_dsn: str, role: str) -> str:
    """Return the DSN of a role beside the owner's: same servers, database and options.

    When the owner's DSN has a password, the role's is `role_password`; when it has none (the embedded server
    trusts its socket), the role has none.
    """
    parts = urlsplit(owner_dsn)
    query = [(key, value) for key, value in parse_qsl(parts.query) if key not in {"user", "password"}]
    password = role_password(owner_dsn, role)
    identity = quote(role) if password is None else f"{quote(role)}:{quote(password)}"
    hosts = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{identity}@{hosts}", query=urlencode(query, safe="/:,")))


def role_password(owner_dsn: str, role: str) -> str | None:
    """Derive a role's password from the owner's, so that two launchers agree without telling each other.

    HMAC-SHA-256 (RFC 2104), in hex, keyed by the owner's password; None when the DSN holds no password.
    """
    owner_password = _password(owner_dsn)
    if owner_password is None:
        return None
    return hmac.digest(owner_password.encode(), f"hourglass role {role}".encode(), "sha256").hex()


def _password(dsn: str) -> str | None:
    parts = urlsplit(dsn)
    if parts.password:
        return unquote(parts.password)
    return dict(parse_qsl(parts.query)).get("password") or None
