"""Open client connections by peer address, so that an answer can end in a real TCP reset."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING, Any, cast

from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import MutableMapping

Peer = tuple[str, int]

_LINGER_ZERO = struct.pack("ii", 1, 0)


class Connections:
    """The transports that are open now."""

    def __init__(self) -> None:
        self._transports: dict[Peer, asyncio.Transport] = {}

    def protocol(self) -> type[asyncio.Protocol]:
        """uvicorn's HTTP/1.1 protocol, made to tell this object about its transports."""
        transports = self._transports

        class TrackedConnection(H11Protocol):
            @override
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                stream = cast("asyncio.Transport", transport)
                super().connection_made(stream)
                transports[stream.get_extra_info("peername")] = stream

            @override
            def connection_lost(self, exc: Exception | None) -> None:
                transports.pop(self.transport.get_extra_info("peername"), None)
                super().connection_lost(exc)

        return TrackedConnection

    def reset(self, scope: MutableMapping[str, Any]) -> None:
        """Ends the connection of this request with RST: unread and unsent bytes are thrown away."""
        transport = self._transports[cast("Peer", tuple(scope["client"]))]
        endpoint: socket.socket = transport.get_extra_info("socket")
        endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)
        transport.abort()
