"""The answer as it arrives: chunks joined into deltas, the first at once, then at most one a window."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from jobs_store.events import EventKind, NewEvent
from worker.outcome import Delivered

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from worker.event_log import EventLog


class Progress:
    """Joins the provider's chunks; never waits. `written` is called after each delta that the log takes."""

    def __init__(self, log: EventLog, *, window: float, written: Callable[[], None]) -> None:
        self._log = log
        self._window = window
        self.written = written
        self._texts: list[str] = []
        self._length = 0
        """Code points that stand in the log."""
        self._tokens = 0
        self._first_token_time: datetime | None = None
        self._waiting: list[str] = []
        self._timer: asyncio.TimerHandle | None = None
        self._next_at = 0.0
        """Loop time from which on a delta may go at once."""

    @property
    def delivered(self) -> Delivered:
        """What stands in the log."""
        return Delivered(
            text="".join(self._texts), tokens=self._tokens, first_token_time=self._first_token_time
        )

    def chunk(self, text: str) -> None:
        """A piece of the answer arrived."""
        self._first_token_time = self._first_token_time or self._log.now()
        self._waiting.append(text)
        if self._timer is not None:
            return
        loop = asyncio.get_running_loop()
        if loop.time() >= self._next_at:
            self.write_out()
        else:
            self._timer = loop.call_at(self._next_at, self.write_out)

    def write_out(self) -> None:
        """Puts what waits into the log."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._waiting:
            return
        text, tokens = "".join(self._waiting), len(self._waiting)
        self._waiting.clear()
        delta = _delta(text, time=self._log.now(), offset=self._length, tokens=tokens)
        self._log.append(delta)
        self._texts.append(text)
        self._length += len(text)
        self._tokens += tokens
        self._next_at = asyncio.get_running_loop().time() + self._window
        self.written()


def _delta(text: str, *, time: datetime, offset: int, tokens: int) -> NewEvent:
    return NewEvent(
        kind=EventKind.TOKEN_DELTA,
        time=time,
        text=text,
        attributes={"offset": offset, "token_count": tokens},
    )
