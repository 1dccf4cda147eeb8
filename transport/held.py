"""Credentials that follow their files: good changes are taken up, bad ones are told of and left out."""

import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final, Protocol

from transport.files import Contents, Part, TlsFiles, WrongFiles, check, read

INTERVAL: Final = 1.0
"""Seconds between two looks at the files, at least."""

Now = Callable[[], datetime]


def utc_now() -> datetime:
    """The wall clock: certificates are good by it."""
    return datetime.now(UTC)


class Watcher(Protocol):
    """Is told what became of changed files. May be called from any thread."""

    def took(self, contents: Contents) -> None:
        """They were good and are held now."""

    def refused(self, error: WrongFiles) -> None:
        """They were not, and what was held before stays. Told once for the same problem."""


class Silent:
    """Tells nobody."""

    def took(self, contents: Contents) -> None:
        """Does nothing."""

    def refused(self, error: WrongFiles) -> None:
        """Does nothing."""


class HeldFiles:
    """What the files held when they were last good. Any thread may ask."""

    def __init__(
        self,
        files: TlsFiles,
        *,
        watcher: Watcher | None = None,
        interval: float = INTERVAL,
        clock: Callable[[], float] = time.monotonic,
        now: Now = utc_now,
    ) -> None:
        """Reads them. Raises WrongFiles: at the start there is nothing to fall back on."""
        self._files = files
        self._watcher = watcher or Silent()
        self._interval = interval
        self._clock = clock
        self._now = now
        self._lock = threading.Lock()
        self._contents = check(read(files), now=now())
        self._looked = clock()
        self._told = ""

    def current(self) -> Contents:
        """What is good now; looks at the files when the last look is `interval` seconds old.

        The same object comes as long as nothing has changed.
        """
        with self._lock:
            if self._clock() - self._looked >= self._interval:
                self._look()
                self._looked = self._clock()
            return self._contents

    def remaining(self) -> Mapping[Part, float]:
        """Seconds until the certificate files that are held stop being good; below 0 once they have."""
        now = self._now()
        return {part: (end - now).total_seconds() for part, end in self._contents.expiries.items()}

    def _look(self) -> None:
        """Files are written one after the other: a pair that does not fit yet fits at a later look."""
        try:
            pems = read(self._files)
            if pems == self._contents.pems:
                self._told = ""
                return
            self._contents = check(pems, now=self._now())
        except WrongFiles as error:
            self._tell(error)
        else:
            self._told = ""
            self._watcher.took(self._contents)

    def _tell(self, error: WrongFiles) -> None:
        if str(error) != self._told:
            self._told = str(error)
            self._watcher.refused(error)
