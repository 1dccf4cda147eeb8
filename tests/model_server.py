"""Model servers in processes of their own, for tests."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlencode

if TYPE_CHECKING:
    from collections.abc import Iterator

STOP_LIMIT = 10.0


@contextmanager
def model_server(module: str) -> Iterator[str]:
    """Runs `python -m module --port 0`; yields its base URL, such as http://127.0.0.1:40123."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, "--port", "0"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        ready = process.stdout.readline()
        assert ready.startswith("listening on http://"), f"{module} said {ready!r}"
        yield ready.removeprefix("listening on ").strip()
    finally:
        process.terminate()
        exit_code = process.wait(STOP_LIMIT)
        assert process.stdout is not None
        process.stdout.close()
    assert exit_code == 0


def requests_seen(server: str, key: str | None = None) -> dict[str, Any]:
    """What the simulated server says of the requests that it got: `GET /requests`."""
    query = f"?{urlencode({'key': key})}" if key is not None else ""
    with urllib.request.urlopen(f"{server}/requests{query}", timeout=5) as response:
        return cast("dict[str, Any]", json.load(response))


async def request_of(server: str, key: str) -> dict[str, Any] | None:
    """The last request with this key, or None if none has arrived."""
    seen = await asyncio.to_thread(requests_seen, server, key)
    return cast("dict[str, Any]", seen["requests"][-1]) if seen["requests"] else None
