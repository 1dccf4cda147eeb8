"""How often a tenant may ask: a rate, a burst, and no tenant pays for another."""

from random import Random

import pytest

from servicekit.rate_limit import RateLimited, RateLimits

METHOD = "/jobs/Get"


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Tenants:
    """Rate limits, and a clock to move."""

    def __init__(self, default: float | None, *, burst: float = 2.0, most: int = 100) -> None:
        self.clock = Clock()
        self.limits = RateLimits(default, burst=burst, most=most, clock=self.clock, random=Random(1))

    def ask(self, tenant: str = "a", times: int = 1) -> int:
        """How many of these requests are let through."""
        return sum(self.refusal(tenant) is None for _ in range(times))

    def refusal(self, tenant: str = "a") -> RateLimited | None:
        try:
            self.limits.take(tenant, METHOD)
        except RateLimited as error:
            return error
        return None

    def later(self, seconds: float) -> None:
        self.clock.now += seconds


def test_a_burst_is_let_through_and_then_the_rate() -> None:
    tenants = Tenants(5.0)

    assert 10 == tenants.ask(times=50)
    tenants.later(1.0)
    assert 5 == tenants.ask(times=50)
    assert 85 == tenants.limits.refusals[METHOD]


def test_whoever_waits_as_long_as_told_is_let_through() -> None:
    tenants = Tenants(0.5, burst=1.0)
    assert 1 == tenants.ask()

    for _ in range(20):
        refused = tenants.refusal()
        assert refused is not None
        assert 0 < refused.retry_after <= 4.0
        tenants.later(refused.retry_after)
        assert 1 == tenants.ask()


def test_a_refusal_says_what_the_tenant_may_do() -> None:
    tenants = Tenants(5.0)
    tenants.ask(times=10)
    refused = tenants.refusal()

    assert refused is not None
    assert ("RATE_LIMITED", "tenant:a") == (refused.reason, refused.subject)
    assert {"requests_per_second": "5", "burst": "10"} == refused.metadata


def test_no_tenant_pays_for_another() -> None:
    tenants = Tenants(1.0, burst=3.0)

    assert (3, 3) == (tenants.ask("a", 9), tenants.ask("b", 9))


def test_without_a_rate_nobody_is_refused() -> None:
    assert 10_000 == Tenants(None).ask(times=10_000)


@pytest.mark.parametrize(("own", "let_through"), [(10.0, 17), (2.0, 1), (None, 7)])
def test_what_a_tenant_has_used_stays_used_when_its_rate_changes(own: float | None, let_through: int) -> None:
    tenants = Tenants(5.0)
    assert 3 == tenants.ask(times=3)

    tenants.limits.assign({"a": own, "unknown": 1.0})

    assert let_through == tenants.ask(times=50)


def test_a_rate_of_its_own_can_be_given_up() -> None:
    tenants = Tenants(None)
    tenants.ask()
    tenants.limits.assign({"a": 1.0})
    assert 2 == tenants.ask(times=9)

    tenants.limits.assign({"a": None})
    assert 9 == tenants.ask(times=9)


def test_however_many_tenants_there_are_so_many_are_remembered() -> None:
    tenants = Tenants(1.0, burst=1.0, most=10)
    for number in range(1000):
        tenants.ask("always")
        tenants.ask(f"tenant-{number}")

    assert 10 == len(tenants.limits.tenants)
    assert len(tenants.limits.take_new()) <= 10
    assert 0 == tenants.ask("always")


def test_a_tenant_is_new_once() -> None:
    tenants = Tenants(1.0)
    tenants.ask("a", 3)
    assert {"a"} == set(tenants.limits.take_new())
    tenants.ask("a", 3)
    assert not tenants.limits.take_new()
