"""How often a tenant may ask: a token bucket each, on each server.

A request takes a token as it arrives, whatever becomes of it; a stream takes one as it begins, and none for
what flows through it. Who finds none is refused with RESOURCE_EXHAUSTED/RATE_LIMITED and a RetryInfo before
anything was looked at: a create that was sent twice costs two, because whether its key is known is the first
thing that it would ask the store.
"""

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from random import Random
from typing import Final

_MOST_TENANTS: Final = 10_000


class RateLimited(Exception):
    """The tenant asks more often than it may."""

    reason = "RATE_LIMITED"

    def __init__(self, tenant: str, *, rate: float, burst: float, retry_after: float) -> None:
        self.subject = f"tenant:{tenant}"
        self.retry_after = retry_after
        self.metadata = {"requests_per_second": f"{rate:g}", "burst": f"{burst:g}"}
        super().__init__(f"the tenant may send {rate:g} requests a second, {burst:g} at once, to this server")


@dataclass(slots=True)
class _Bucket:
    """rate: tokens a second; None: no limit. tokens: as of `at`."""

    rate: float | None
    tokens: float
    at: float


class RateLimits:
    """The buckets of one server.

    The least recently used one is dropped beyond `most` tenants; it begins full again, as it would be anyway
    after `burst` seconds without a request.
    """

    def __init__(
        self,
        default: float | None,
        *,
        burst: float,
        most: int = _MOST_TENANTS,
        clock: Callable[[], float] = time.monotonic,
        random: Random | None = None,
    ) -> None:
        """default: requests a second of a tenant that has no rate of its own; None: no limit.
        burst: so many seconds of a rate may come at once, and one request always may."""
        self.refusals: Counter[str] = Counter()
        """How many were refused, by method."""
        self._default = default
        self._burst = burst
        self._most = most
        self._clock = clock
        self._random = random or Random()  # noqa: S311 - spreads retries
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()
        self._new: set[str] = set()

    def take(self, tenant: str, method: str) -> None:
        """One token for one request. RateLimited, and counted, when there is none."""
        bucket = self._bucket_of(tenant)
        if bucket.rate is None:
            return
        self._refill(bucket, bucket.rate)
        if bucket.tokens >= 1.0:
            bucket.tokens -= 1.0
            return
        self.refusals[method] += 1
        wait = (1.0 - bucket.tokens) / bucket.rate
        # Spread: those who are refused together would come back together, for one token.
        wait *= self._random.uniform(1.0, 2.0)
        raise RateLimited(tenant, rate=bucket.rate, burst=self._size(bucket.rate), retry_after=wait)

    def assign(self, rates: Mapping[str, float | None]) -> None:
        """Gives tenants their own rates; None is the default one. What they have used stays used."""
        for tenant, own in rates.items():
            bucket, rate = self._buckets.get(tenant), own or self._default
            if bucket is None or bucket.rate == rate:
                continue
            used = 0.0
            if bucket.rate is not None:
                self._refill(bucket, bucket.rate)
                used = self._size(bucket.rate) - bucket.tokens
            bucket.rate = rate
            if rate is not None:
                bucket.tokens, bucket.at = max(0.0, self._size(rate) - used), self._clock()

    @property
    def tenants(self) -> Collection[str]:
        """Those who have asked, up to `most`."""
        return tuple(self._buckets)

    def take_new(self) -> Collection[str]:
        """Those who have asked for the first time since this was called last."""
        new, self._new = self._new, set()
        return new & self._buckets.keys()

    def _bucket_of(self, tenant: str) -> _Bucket:
        bucket = self._buckets.get(tenant)
        if bucket is not None:
            self._buckets.move_to_end(tenant)
            return bucket
        bucket = _Bucket(self._default, self._size(self._default or 0.0), self._clock())
        self._buckets[tenant] = bucket
        self._new.add(tenant)
        if len(self._buckets) > self._most:
            dropped, _ = self._buckets.popitem(last=False)
            self._new.discard(dropped)
        return bucket

    def _refill(self, bucket: _Bucket, rate: float) -> None:
        now = self._clock()
        bucket.tokens = min(self._size(rate), bucket.tokens + (now - bucket.at) * rate)
        bucket.at = now

    def _size(self, rate: float) -> float:
        return max(1.0, rate * self._burst)
