"""Where a key set is read: a file or a URL, whole and bounded, under a budget."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import httpx2

from budget.core import Budget
from budget.http import HttpLimits, http_stream
from budget.policy import Policy
from servicekit.listen import is_loopback_host

LARGEST: Final = 1 << 20
FETCH: Final = Policy(dependency="identity", method="fetch_keys", limit=5.0)
_LIMITS: Final = HttpLimits(first_byte=3.0, between=2.0, connect=1.0, tls=1.0)
_SCHEMES: Final = ("http://", "https://")

ReadKeys = Callable[[Budget], Awaitable[str]]
"""Reads the text of a key set. Raises KeysUnreadable, OSError, BudgetError."""


class KeysUnreadable(Exception):
    """The key set was not given; the text says why, without what was answered."""


def reader_of(place: str) -> ReadKeys:
    """Reads a file, or a URL where `place` is one. ValueError for a URL that cannot be trusted."""
    if not place.startswith(_SCHEMES):
        return lambda _budget: _read_file(Path(place))
    check_url(place)
    return lambda budget: _fetch(place, budget)


def check_url(url: str) -> None:
    """ValueError unless what the URL answers comes from whom it names: https, or this machine."""
    parts = urlsplit(url)
    if not parts.hostname or parts.username or parts.password:
        raise ValueError("wanted a URL with a host, and without a user in it")
    if parts.scheme != "https" and not is_loopback_host(parts.hostname):
        raise ValueError("wanted https: whoever changes the keys on their way makes tokens of their own")


async def _read_file(path: Path) -> str:
    text = await asyncio.to_thread(path.read_text, encoding="utf-8")
    if len(text) > LARGEST:
        raise KeysUnreadable(f"it is larger than {LARGEST} bytes")
    return text


async def _fetch(url: str, budget: Budget) -> str:
    """A fresh connection each time: it is asked for once in minutes."""
    transport = httpx2.AsyncHTTPTransport(trust_env=False, retries=0)
    async with httpx2.AsyncClient(transport=transport, follow_redirects=False, timeout=None) as client:

        async def send(child: Budget) -> AsyncIterator[bytes]:
            client.timeout = httpx2.Timeout(None, connect=_LIMITS.connect_timeout(child))
            request = client.build_request("GET", url, headers={"accept": "application/json"})
            response = await client.send(request, stream=True)
            if response.status_code != httpx2.codes.OK:
                await response.aclose()
                raise KeysUnreadable(f"the answer's status is {response.status_code}")
            return _body(response)

        try:
            return await _whole(send, budget)
        except httpx2.HTTPError as error:
            raise KeysUnreadable(type(error).__name__) from error


async def _body(response: httpx2.Response) -> AsyncIterator[bytes]:
    try:
        async with aclosing(response.aiter_bytes()) as chunks:
            async for chunk in chunks:
                yield chunk
    finally:
        await response.aclose()


async def _whole(send: Callable[[Budget], Awaitable[AsyncIterator[bytes]]], budget: Budget) -> str:
    body = bytearray()
    async with http_stream(
        send, close=lambda body: body.aclose(), budget=budget, policy=FETCH, limits=_LIMITS
    ) as chunks:
        async for chunk in chunks:
            body += chunk
            if len(body) > LARGEST:
                raise KeysUnreadable(f"the answer is larger than {LARGEST} bytes")
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise KeysUnreadable("the answer is no UTF-8") from error
