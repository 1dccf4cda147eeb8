"""API keys: looked up where they are stored, remembered for a short time.

A key that is revoked, or whose time is over, stops within `age` seconds and one look-up. While the database
is away, keys that were good when it was last asked go on, `outage` seconds at most. Of a key that is used
again, one look-up at a time is on its way; callers that come meanwhile go on with what is known.
"""

import hmac
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from budget.core import Budget, Clock
from budget.errors import BudgetError, BudgetExhausted, BudgetTooLow
from servicekit.call import Principal
from servicekit.identity.api_key_text import ApiKeyText, parsed_api_key
from servicekit.identity.errors import ApiKeyExpired, ApiKeyRevoked, IdentityError, UnknownApiKey
from servicekit.identity.scopes import Scopes

KEPT: Final = 4096
KEPT_REFUSALS: Final = 1024
_RETRY: Final = 1.0
"""Seconds between two look-ups of a known key while the database is away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKey:
    """A key as it is stored. expires: seconds since 1970; None: never."""

    digest: bytes
    user: str
    scopes: Scopes
    expires: float | None
    revoked: bool


FindKey = Callable[[str, str, Budget], Awaitable[StoredKey | None]]
"""Finds a key by its tenant and its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyAges:
    """Seconds. age: what was looked up is believed so long. outage: and so long while nobody can be asked."""

    age: float = 10.0
    outage: float = 300.0


@dataclass(slots=True)
class _Known:
    principal: Principal
    expires: float | None
    seen: float
    due: float
    refreshing: bool = False


class ApiKeys:
    """Who stands behind a key. wall: seconds since 1970, which keys end by."""

    def __init__(
        self,
        find: FindKey,
        ages: KeyAges,
        *,
        clock: Clock = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._find = find
        self._ages = ages
        self._clock = clock
        self._wall = wall
        self._known: dict[bytes, _Known] = {}
        self._refused: dict[bytes, tuple[type[IdentityError], float]] = {}

    async def principal(self, text: str, budget: Budget) -> Principal:
        """The key's tenant and user. Raises UnknownApiKey, ApiKeyExpired, ApiKeyRevoked, and what a look-up
        raises when nothing is known yet."""
        key = parsed_api_key(text)
        if key is None:
            raise UnknownApiKey
        digest = key.digest
        known = self._known.get(digest)
        if known is None:
            self._raise_refusal(digest)
            known = await self._look_up(key, digest, budget)
        elif self._clock() >= known.due and not known.refreshing:
            known = await self._refreshed(key, digest, known, budget)
        if known.expires is not None and self._wall() >= known.expires:
            raise ApiKeyExpired
        return known.principal

    async def _refreshed(self, key: ApiKeyText, digest: bytes, known: _Known, budget: Budget) -> _Known:
        known.refreshing = True
        try:
            return await self._look_up(key, digest, budget)
        except (BudgetTooLow, BudgetExhausted):
            raise  # the caller's own time: no reason to believe an old answer
        except BudgetError:
            now = self._clock()
            if now - known.seen >= self._ages.outage:
                self._known.pop(digest, None)
                raise
            known.due = now + _RETRY
            return known
        finally:
            known.refreshing = False

    async def _look_up(self, key: ApiKeyText, digest: bytes, budget: Budget) -> _Known:
        stored = await self._find(key.tenant, key.key_id, budget)
        refusal = _refusal(stored, digest)
        if refusal is not None or stored is None:
            self._known.pop(digest, None)
            self._refuse(digest, refusal or UnknownApiKey)
            raise refusal() if refusal else UnknownApiKey()
        now = self._clock()
        known = _Known(_principal(key, stored), stored.expires, seen=now, due=now + self._ages.age)
        self._known[digest] = known
        if len(self._known) > KEPT:
            del self._known[next(iter(self._known))]
        return known

    def _raise_refusal(self, digest: bytes) -> None:
        refused = self._refused.get(digest)
        if refused is None:
            return
        refusal, until = refused
        if self._clock() < until:
            raise refusal()
        del self._refused[digest]

    def _refuse(self, digest: bytes, refusal: type[IdentityError]) -> None:
        self._refused[digest] = (refusal, self._clock() + self._ages.age)
        if len(self._refused) > KEPT_REFUSALS:
            del self._refused[next(iter(self._refused))]


def _refusal(stored: StoredKey | None, digest: bytes) -> type[IdentityError] | None:
    """Why a key is not good. Whoever has not its secret learns that it is not known, and no more."""
    if stored is None or not hmac.compare_digest(stored.digest, digest):
        return UnknownApiKey
    return ApiKeyRevoked if stored.revoked else None


def _principal(key: ApiKeyText, stored: StoredKey) -> Principal:
    return Principal(
        tenant=key.tenant,
        user=stored.user,
        scopes=stored.scopes,
        authenticated_by=f"api_key:{key.key_id}",
    )
