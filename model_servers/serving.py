"""What the model servers share: a bound socket, one ready line on stdout, and a clean end on SIGTERM."""

from __future__ import annotations

import argparse
import signal
import socket
import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


def announce(host: str, port: int) -> None:
    """The ready line. Whoever started the process waits for it and reads the real port from it."""
    print(f"listening on http://{host}:{port}", flush=True)


def bind(host: str, port: int) -> socket.socket:
    """A listening socket, or a clear end of the process if the port is taken."""
    # The protocol is named: asyncio turns Nagle's algorithm off only where it can see that it is TCP.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        fail(f"cannot listen on {host}:{port}: {error.strerror}")
    listener.listen(512)
    return listener


def on_stop_signal(stop: Callable[[], None]) -> None:
    """Calls ``stop`` on SIGTERM and SIGINT."""

    def handle(_number: int, _frame: FrameType | None) -> None:
        stop()

    signal.signal(signal.SIGTERM, handle)
    signal.signal(signal.SIGINT, handle)


def address_arguments(description: str) -> argparse.Namespace:
    """``--host`` and ``--port`` from the command line; port 0 takes a free one."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--host", default="127.0.0.1", help="loopback unless told otherwise")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free port")
    return parser.parse_args()


def fail(message: str) -> NoReturn:
    """Ends the process with a message that a person can act on."""
    print(message, file=sys.stderr, flush=True)
    raise SystemExit(1)
