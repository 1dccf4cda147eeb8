"""Binding a server to an address, or saying why it cannot be bound."""

import errno
import ipaddress
import os
import socket
from typing import Final

import grpc

UNIX: Final = "unix:"


class CannotListen(Exception):
    """An address cannot be listened on; the text names it and says why."""

    def __init__(self, address: str, why: str) -> None:
        self.address = address
        super().__init__(f"cannot listen on {address}: {why}")


def bind(server: grpc.aio.Server, address: str, credentials: grpc.ServerCredentials | None = None) -> str:
    """Binds a server and returns the address with its real port. Raises CannotListen."""
    if address.startswith(UNIX):
        _refuse_served_socket(address)
        _add(server, address, credentials)
        return address
    host, port = split(address)
    real = _add(server, address, credentials)
    return address if int(port) else f"{host}:{real}"


def split(address: str) -> tuple[str, str]:
    """Host (with its brackets, for IPv6) and port of an address. Raises CannotListen when it has none."""
    host, separator, port = address.rpartition(":")
    if not separator or not host or not port.isdecimal() or int(port) > 65535:
        raise CannotListen(address, "the address must be host:port or unix:/path")
    return host, port


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach an address. Raises CannotListen for what is no address."""
    return address.startswith(UNIX) or is_loopback_host(split(address)[0])


def is_loopback_host(host: str) -> bool:
    """Whether a host is this machine. A name other than localhost is taken for one that others can reach,
    whatever it resolves to now."""
    host = host.strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def refuse_open_bind(listen: str, *, authenticated: bool, encrypted: bool, insecure: bool) -> str | None:
    """Why an address must not be listened on, or None.

    Others on the network can read and change what goes over a connection in the clear, and call what asks
    nobody who they are. authenticated: whether every caller has to say who they are, and is believed only
    with proof. encrypted: whether the listener speaks TLS alone. insecure: somebody said that it may be.
    """
    if insecure or is_loopback(listen) or (authenticated and encrypted):
        return None
    missing = [name for name, there in (("TLS", encrypted), ("authentication", authenticated)) if not there]
    return f"others can reach it, so it takes {' and '.join(missing)}, or --insecure"


_UNKNOWN: Final = "the address cannot be bound"


def _add(server: grpc.aio.Server, address: str, credentials: grpc.ServerCredentials | None) -> int:
    try:
        if credentials is None:
            return server.add_insecure_port(address)
        return server.add_secure_port(address, credentials)
    except RuntimeError:
        why = _why(address)
        if credentials is not None and why == _UNKNOWN:
            why = "gRPC cannot use the certificate"
        raise CannotListen(address, why) from None


def _refuse_served_socket(address: str) -> None:
    """Core removes an existing socket file, even one that a living server listens on."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(address.removeprefix(UNIX))
        except OSError:
            return
    raise CannotListen(address, os.strerror(errno.EADDRINUSE))


def _why(address: str) -> str:
    """Core does not tell: the same bind without it does."""
    if address.startswith(UNIX):
        return "the socket cannot be made there"
    host, port = split(address)
    try:
        family, kind, protocol, _, target = socket.getaddrinfo(
            host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.bind(target)
    except OSError as error:
        return error.strerror or str(error)
    return _UNKNOWN
