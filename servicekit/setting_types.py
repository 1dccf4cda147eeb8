"""Kinds of settings that several processes have, checked before anything is begun with them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import parse_qsl, urlsplit

from pydantic import AfterValidator, SecretStr

from servicekit.listen import UNIX, CannotListen, is_loopback, split

_TLS_MODES: Final = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_TLS_FILES: Final = ("sslrootcert", "sslcert", "sslkey")
_SCHEMES: Final = frozenset({"postgres", "postgresql"})


def _address(value: str) -> str:
    try:
        if not value.startswith(UNIX):
            split(value)
    except CannotListen:
        raise ValueError(f"{value!r} is no address; wanted host:port or unix:/path") from None
    return value


def _port(value: str) -> str:
    if value.startswith(UNIX):
        raise ValueError(f"{value!r} is no host:port")
    return _address(value)


def _near(value: str) -> str:
    if not is_loopback(_address(value)):
        raise ValueError(f"{value!r} can be reached from elsewhere; wanted loopback or unix:/path")
    return value


def _database_url(value: str) -> str:
    """Says nothing of the value: it holds a password."""
    address = urlsplit(value)
    if address.scheme not in _SCHEMES:
        raise ValueError("wanted postgresql://user:password@host:port/database")
    for host in address.netloc.rpartition("@")[2].split(","):
        port = host.rpartition("]")[2].partition(":")[2]
        if port and not (port.isdecimal() and int(port) <= 65535):
            raise ValueError("its port must be a number up to 65535")
    _check_tls(dict(parse_qsl(address.query)))
    return value


def _check_tls(options: Mapping[str, str]) -> None:
    """What libpq calls by these names. A file that is missing would be told of again and again later."""
    mode = options.get("sslmode", "prefer")
    if mode not in _TLS_MODES:
        raise ValueError(f"sslmode is one of {', '.join(_TLS_MODES)}")
    for name in _TLS_FILES:
        if name not in options:
            continue
        try:
            Path(options[name]).read_bytes()
        except OSError as error:
            raise ValueError(f"{name} {options[name]!r} cannot be read: {error.strerror}") from None


def _secret_url(value: SecretStr) -> SecretStr:
    _database_url(value.get_secret_value())
    return value


ListenAddress = Annotated[str, AfterValidator(_address)]
"""`host:port` or `unix:/path`."""
HttpAddress = Annotated[str, AfterValidator(_port)]
"""`host:port`."""
LocalAddress = Annotated[str, AfterValidator(_near)]
"""What only this machine can reach."""
DatabaseUrl = Annotated[str, AfterValidator(_database_url)]
"""A PostgreSQL URL; where it is printed its password is not."""
SecretDatabaseUrl = Annotated[SecretStr, AfterValidator(_secret_url)]
"""The same, never printed."""
