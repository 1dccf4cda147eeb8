"""Kinds of settings that several processes have, checked before anything is begun with them."""

from typing import Annotated, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, SecretStr

from servicekit.listen import UNIX, CannotListen, is_loopback, split

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
    return value


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
