"""The way of one process to Postgres: a proxy that strikes at a COMMIT.

One transaction is struck and no other. Only those that write count: they open with `BEGIN;`, readers with
`BEGIN READ ONLY`.
"""

import asyncio
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from tests.chaos_proxy import ChaosProxy, Pieces, reset, running
from tests.torture.kinds import Kind

_COMMIT: Final = b"Q\x00\x00\x00\x0bCOMMIT\x00"
"""As a simple query, which is how it is sent."""
_BEGIN: Final = b"BEGIN"
_READING: Final = b"BEGIN READ ONLY"


@dataclass(slots=True, kw_only=True)
class Strike:
    """What becomes of the next COMMIT, for `hold` seconds."""

    kind: Kind
    hold: float
    hit: asyncio.Event = field(default_factory=asyncio.Event)


class Wire(ChaosProxy):
    """All connections of one process."""

    armed_strike: Strike | None = None

    @classmethod
    def to_server(cls, socket: Path) -> AbstractAsyncContextManager["Wire"]:
        """To the Postgres that listens on this socket, or will."""
        return running(cls(partial(asyncio.open_unix_connection, socket)))

    async def strike_commit(self, kind: Kind, *, hold: float, within: float) -> bool:
        """Strike the next COMMIT; False when there was none in that time."""
        self.armed_strike = strike = Strike(kind=kind, hold=hold)
        try:
            async with asyncio.timeout(within):
                await strike.hit.wait()
        except TimeoutError:
            self.armed_strike = None
        return strike.hit.is_set()

    def take_strike(self) -> Strike | None:
        """What is armed; it is not any more."""
        strike, self.armed_strike = self.armed_strike, None
        if strike is not None:
            strike.hit.set()
        return strike

    def treatment(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> tuple[Pieces, Pieces]:
        """How the two directions of a new connection are passed on."""
        session = _Session(self, client, server)
        return session.requests, session.answers


class _Session:
    """One connection."""

    def __init__(self, wire: Wire, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self._wire = wire
        self._ends = client, server
        self._writes = False
        self._struck: Strike | None = None

    def requests(self, data: bytes) -> Iterator[tuple[float, bytes]]:
        if _BEGIN in data:
            self._writes = _READING not in data
        if self._writes and _COMMIT in data:
            self._struck = self._wire.take_strike()
        if self._struck is not None and self._struck.kind is Kind.COMMIT_LOST:
            yield self._struck.hold, b""
            self._cut()
        else:
            yield 0.0, data

    def answers(self, data: bytes) -> Iterator[tuple[float, bytes]]:
        struck, self._struck = self._struck, None
        if struck is None:
            yield 0.0, data
        elif struck.kind is Kind.COMMIT_REPLY_LATE:
            yield struck.hold, data
        else:
            yield struck.hold, b""
            self._cut()

    def _cut(self) -> None:
        for end in self._ends:
            reset(end)
