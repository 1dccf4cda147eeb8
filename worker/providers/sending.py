"""Proof that a request left: the HTTP transport tells, per request key, when its first byte is written."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx2
from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY_HEADER = "Idempotency-Key"


class Sending:
    """Whether the bytes of one request have begun to leave."""

    def __init__(self) -> None:
        self.begun = False

    async def trace(self, event: str, _info: dict[str, Any]) -> None:
        """The transport's `trace` extension."""
        if event.endswith(".send_request_headers.started"):
            self.begun = True


class WatchedTransport(httpx2.AsyncHTTPTransport):
    """The HTTP transport of one provider. Proxies come from its configuration, never from the environment."""

    def __init__(self, *, proxy: str | None, limits: httpx2.Limits) -> None:
        super().__init__(trust_env=False, proxy=proxy, limits=limits, retries=0)
        self._watched: dict[str, Sending] = {}

    @contextmanager
    def watch(self, request_key: str) -> Iterator[Sending]:
        """Watches the request that carries this key in its `Idempotency-Key` header."""
        sending = self._watched[request_key] = Sending()
        try:
            yield sending
        finally:
            self._watched.pop(request_key, None)

    @override
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        sending = self._watched.get(request.headers.get(KEY_HEADER, ""))
        if sending is not None:
            request.extensions["trace"] = sending.trace
        return await super().handle_async_request(request)
