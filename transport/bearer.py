"""The bearer token of a caller: a text, or a file that is read again when it changes."""

import ipaddress
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

AUTHORIZATION: Final = "authorization"
LOOK_EVERY: Final = 1.0
"""Seconds between two looks at a file."""
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")

Metadata = tuple[tuple[str, str], ...]
Token = Callable[[], str]
"""The token for the next call."""


class WrongToken(Exception):
    """What should be a token is none. The text names the place, never the token."""


def fixed(token: str) -> Token:
    """A token that stays. Raises WrongToken."""
    checked = _checked(token, "the token")
    return lambda: checked


def bearer(token: Token | None) -> Metadata:
    """What a call carries; nothing without a token."""
    return () if token is None else ((AUTHORIZATION, f"Bearer {token()}"),)


class TokenFile:
    """The token in a file, so that it may be replaced while the process runs. Threads may share it.

    While the file cannot be read, or holds no token, the last good one stays in use: whoever replaces a file
    may leave it half written for a moment.
    """

    def __init__(
        self,
        path: Path,
        *,
        interval: float = LOOK_EVERY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises WrongToken when there is none at the start."""
        self._path = path
        self._interval = interval
        self._clock = clock
        self._lock = threading.Lock()
        self._seen = _stamp(path)
        self._token = _read(path)
        self._looked = clock()

    def __call__(self) -> str:
        """The present one."""
        now = self._clock()
        if now - self._looked >= self._interval and self._lock.acquire(blocking=False):
            try:
                self._looked = now
                self._look()
            finally:
                self._lock.release()
        return self._token

    def _look(self) -> None:
        try:
            stamp = _stamp(self._path)
            if stamp != self._seen:
                self._token = _read(self._path)
                self._seen = stamp
        except WrongToken:
            pass


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        status = path.stat()
    except OSError as error:
        raise WrongToken(f"{path}: {error.strerror}") from error
    return status.st_ino, status.st_mtime_ns, status.st_size


def _read(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WrongToken(f"{path}: cannot be read") from error
    return _checked(text.strip(), str(path))


def _checked(token: str, place: str) -> str:
    if not _TOKEN.fullmatch(token):
        raise WrongToken(f"{place}: wanted one token of visible ASCII characters")
    return token


def token_of(given: "str | Path | Token | None") -> Token | None:
    """A token however it is given: a text, a file, or whoever has it. Raises WrongToken."""
    if isinstance(given, str):
        return fixed(given)
    return TokenFile(given) if isinstance(given, Path) else given


def is_local(target: str) -> bool:
    """Whether what goes to a gRPC target leaves this machine not even when it goes in the clear."""
    if target.startswith("unix"):
        return True
    rest = target.rpartition("/")[2].removeprefix("ipv4:").removeprefix("ipv6:")
    host = (rest.rpartition(":")[0] or rest).strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
