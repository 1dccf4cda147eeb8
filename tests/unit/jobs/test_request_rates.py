"""The tenants' own rates are read for many at once, and never by a request."""

from collections.abc import Mapping, Sequence

from budget.core import Budget
from budget.errors import DatabaseUnavailable
from jobs_service.service.request_rates import RatesPace, RequestRates
from jobs_store.identifiers import TenantId
from servicekit.rate_limit import RateLimits


class Store:
    """Remembers what it was asked."""

    def __init__(self) -> None:
        self.rates: dict[TenantId, float | None] = {}
        self.asked: list[int] = []
        self.away = False

    async def request_rates(
        self, tenants: Sequence[TenantId], *, budget: Budget
    ) -> Mapping[TenantId, float | None]:
        self.asked.append(len(tenants))
        if self.away:
            raise DatabaseUnavailable(dependency="postgres", method="read_request_rates")
        return {tenant: self.rates.get(tenant) for tenant in tenants}


class Server:
    """A server's limits, its store, and a clock to move."""

    def __init__(self) -> None:
        self.now = 0.0
        self.store = Store()
        self.limits = RateLimits(None, burst=1.0, clock=lambda: self.now)
        pace = RatesPace(interval=10.0, page=100)
        self.rates = RequestRates(self.limits, self.store, pace, clock=lambda: self.now)

    def rate_of(self, tenant: str) -> float | None:
        return self.limits._buckets[tenant].rate


async def test_a_new_tenants_rate_is_read_once_and_again_when_all_are_due() -> None:
    server = Server()
    server.store.rates = {TenantId("a"): 5.0}
    await server.rates.look()
    assert [] == server.store.asked

    server.limits.take("a", "/x")
    await server.rates.look()
    await server.rates.look()
    assert ([1], 5.0) == (server.store.asked, server.rate_of("a"))

    server.store.rates = {TenantId("a"): 7.0}
    server.now = 10.0
    await server.rates.look()
    assert ([1, 1], 7.0) == (server.store.asked, server.rate_of("a"))


async def test_many_tenants_are_few_statements() -> None:
    server = Server()
    for number in range(250):
        server.limits.take(f"tenant-{number}", "/x")
    await server.rates.look()

    assert [100, 100, 50] == server.store.asked


async def test_while_the_store_is_away_what_was_known_counts_and_then_all_is_read_again() -> None:
    server = Server()
    server.store.rates = {TenantId("a"): 5.0, TenantId("b"): 6.0}
    server.limits.take("a", "/x")
    await server.rates.look()

    server.store.away = True
    server.limits.take("b", "/x")
    await server.rates.look()
    assert (5.0, None) == (server.rate_of("a"), server.rate_of("b"))

    server.store.away = False
    await server.rates.look()
    assert (5.0, 6.0) == (server.rate_of("a"), server.rate_of("b"))
