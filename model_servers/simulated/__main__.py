"""``python -m model_servers.simulated [--host 127.0.0.1] [--port 0]``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import uvicorn
from typing_extensions import override

from model_servers.serving import address_arguments, announce, bind, on_stop_signal
from model_servers.simulated.app import build
from model_servers.simulated.connections import Connections

if TYPE_CHECKING:
    import socket


class _AnnouncingServer(uvicorn.Server):
    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            announce(*listener.getsockname()[:2])


def main() -> None:
    """Serves until SIGTERM or SIGINT, then ends with 0."""
    arguments = address_arguments("A deterministic model server that misbehaves on request.")
    listener = bind(arguments.host, arguments.port)
    connections = Connections()
    server = _AnnouncingServer(
        uvicorn.Config(
            build(connections),
            http=connections.protocol(),
            loop="asyncio",
            ws="none",
            log_level="critical",
            timeout_graceful_shutdown=1,
        )
    )
    # uvicorn raises the signal that stopped it once more when it is done: this handler takes it.
    on_stop_signal(lambda: None)
    server.run(sockets=[listener])


if __name__ == "__main__":
    main()
