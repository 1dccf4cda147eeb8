"""The keys of a token issuer, kept up to date beside the requests.

One loop reads the key set: again every `refresh` seconds, and sooner when a token names a key that is not
there. Requests with known keys never wait for it. One with an unknown key waits for one reading at most, its
own budget permitting, and however many such tokens come, the issuer is asked once in `pause` seconds.
"""

import asyncio
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import jwt
import structlog

from budget.core import Budget, Clock
from budget.errors import BudgetError, UpstreamTimeout
from budget.policy import Policy
from budget.spend import spend
from servicekit.identity.errors import InvalidToken, SigningKeysUnavailable
from servicekit.identity.key_sets import NO_KEYS, KeySet, MalformedKeySet
from servicekit.identity.key_sources import FETCH, KeysUnreadable, ReadKeys
from servicekit.lifecycle import pause, pause_until

WAIT: Final = Policy(dependency="identity", method="wait_for_keys", limit=1.0)
_FAILURES: Final = (MalformedKeySet, KeysUnreadable, BudgetError, OSError, UnicodeDecodeError)
_log = structlog.stdlib.get_logger("hourglass.identity")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPace:
    """Seconds. refresh: a key that the issuer dropped is good no longer than this. pause: the least time
    between two readings."""

    refresh: float = 300.0
    pause: float = 10.0


class SigningKeys:
    """The present key set. `run` has to run for it to be there at all."""

    def __init__(
        self,
        read: ReadKeys,
        *,
        algorithms: Collection[str],
        pace: KeyPace,
        clock: Clock = time.monotonic,
    ) -> None:
        self.current = NO_KEYS
        self._read = read
        self._algorithms = frozenset(algorithms)
        self._pace = pace
        self._clock = clock
        self._ended: float | None = None
        self._failed = False
        self._asked = asyncio.Event()
        self._next_reading = asyncio.Event()

    async def key(self, key_id: str, budget: Budget) -> jwt.PyJWK:
        """The key of this id. Raises InvalidToken when the issuer has none, SigningKeysUnavailable when it
        cannot be asked, BudgetTooLow and BudgetExhausted."""
        known = self.current.get(key_id)
        if known is None and self._may_ask():
            await self._wait(budget)
            known = self.current.get(key_id)
        if known is not None:
            return known
        if self._failed or self._ended is None:
            raise SigningKeysUnavailable
        raise InvalidToken("its signing key is not known")

    async def run(self, stop: asyncio.Event) -> None:
        """Reads until told to stop."""
        while not stop.is_set():
            await self._read_once()
            await pause(self._pace.pause, stop)
            await pause_until(self._pace.refresh, stop, self._asked)

    def _may_ask(self) -> bool:
        return self._ended is None or self._clock() - self._ended >= self._pace.pause

    async def _wait(self, budget: Budget) -> None:
        reading = self._next_reading
        self._asked.set()
        try:
            async with spend(budget, WAIT):
                await reading.wait()
        except UpstreamTimeout as error:
            raise SigningKeysUnavailable from error

    async def _read_once(self) -> None:
        try:
            self._take(await self._read(Budget.for_work(FETCH.limit)))
            self._failed = False
        except _FAILURES as error:
            self._failed = True
            _log.warning(
                "the signing keys cannot be read: known ones go on",
                cause=f"{type(error).__name__}: {error}",
                known=len(self.current),
                next_try_in=self._pace.pause,
            )
        finally:
            self._ended = self._clock()
            self._asked.clear()
            done, self._next_reading = self._next_reading, asyncio.Event()
            done.set()

    def _take(self, text: str) -> None:
        if text == self.current.text:
            return
        self.current = KeySet.of(text, self._algorithms)
        _log.info("signing keys", count=len(self.current))
