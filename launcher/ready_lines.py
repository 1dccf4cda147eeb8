"""How each kind of process says that it serves. Pure."""

import json
from typing import Final

_LISTENING: Final = "listening on http://"


def grpc_address(line: str) -> str | None:
    """The address in the start-up line of a gRPC service of ours: JSON, event `serving`."""
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    if not isinstance(entry, dict) or entry.get("event") != "serving":
        return None
    return str(entry["address"]) if entry.get("address") else None


def http_url(line: str) -> str | None:
    """The base URL in the ready line of a model server."""
    return line.removeprefix("listening on ").strip() if line.startswith(_LISTENING) else None
