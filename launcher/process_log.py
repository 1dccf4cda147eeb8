"""What a child process writes: all of it in a file of bounded size, its end in memory."""

import json
import logging
from collections import deque
from collections.abc import Sequence
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Final

FILE_SIZE: Final = 8 * 1024 * 1024
TAIL_LINES: Final = 12
LINE_LENGTH: Final = 400
_SHOWN_ONCE: Final = frozenset({"level", "event", "exception", "error", "service", "logger", "timestamp"})


class ProcessLog:
    """The log of one process: `NAME.log`, and `NAME.log.1` with what came before."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._file = RotatingFileHandler(path, mode="w", maxBytes=FILE_SIZE, backupCount=1, encoding="utf-8")
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)

    def write(self, line: str) -> None:
        """Keep one line."""
        self._file.handle(logging.makeLogRecord({"msg": line}))
        self._tail.append(line)

    def close(self) -> None:
        """Close the file; the tail stays."""
        self._file.close()

    @property
    def tail(self) -> Sequence[str]:
        """The last lines for a reader, and where all of them are."""
        return (*map(readable, self._tail), f"all of it: {self.path}")


def readable(line: str) -> str:
    """A line of JSON log as text, with its exception's last line; other lines as they are, long ones cut."""
    try:
        entry = json.loads(line)
    except ValueError:
        return line[:LINE_LENGTH]
    if not isinstance(entry, dict) or "event" not in entry:
        return line[:LINE_LENGTH]
    parts = [str(entry.get("level", "")), str(entry["event"]), _error(entry)]
    parts += [f"{key}={value}" for key, value in entry.items() if key not in _SHOWN_ONCE]
    return " ".join(filter(None, parts))[:LINE_LENGTH]


def _error(entry: dict[str, object]) -> str:
    """What went wrong: the last line of a traceback, without the module of the class."""
    lines = str(entry.get("exception") or entry.get("error") or "").strip().splitlines()
    if not lines:
        return ""
    kind, separator, message = lines[-1].partition(":")
    return f"error={kind.rpartition('.')[2]}{separator}{message}"
