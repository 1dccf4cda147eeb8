"""Looking, before anything starts, whether the addresses that we want are free."""

import socket
from collections.abc import Mapping

from launcher.errors import AddressTaken
from servicekit.listen import split


def require_free(addresses: Mapping[str, str]) -> None:
    """Raise AddressTaken with every address that cannot be listened on.

    addresses: `host:port`, by the name of the variable that sets each. A port that is taken later is refused
    by the service itself: this is for a clear answer, not for certainty.
    """
    problems = {variable: why for variable, address in addresses.items() if (why := _why_not(address))}
    if problems:
        raise AddressTaken(problems)


def _why_not(address: str) -> str:
    if address.startswith("unix:"):
        return ""
    host, port = split(address)
    try:
        family, kind, protocol, _, target = socket.getaddrinfo(
            host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(target)
    except OSError as error:
        return f"cannot listen on {address}: {error.strerror or error}"
    return ""
