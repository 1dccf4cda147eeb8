"""The adaptive limit: it keeps a dependency of fixed capacity busy, and no more than that."""

from collections.abc import Callable
from random import Random

import pytest

from servicekit.gradient_limit import Bounds, GradientLimit
from tests.unit.budget.clocks import FakeClock
from tests.unit.servicekit.overload import Overload

CAPACITY = 8 / 0.020
WARM_UP = 4.0
METHOD = "/x/Y"


def constant(_random: Random, _now: float) -> float:
    return 0.020


def scattered(random: Random, _now: float) -> float:
    return random.expovariate(CAPACITY / 8)


def two_kinds(random: Random, _now: float) -> float:
    return 0.005 if random.random() < 0.8 else 0.080


@pytest.mark.parametrize("service", [constant, scattered, two_kinds])
@pytest.mark.parametrize("initial", [8, 512])
def test_goodput_at_twice_the_load_stays_near_the_peak(
    service: Callable[[Random, float], float], initial: int
) -> None:
    def goodput(load: float) -> float:
        bounds = Bounds(minimum=8, initial=initial)
        run = Overload(rate=load * CAPACITY, service=service, bounds=bounds).run(WARM_UP + 6)
        return run.goodput(after=WARM_UP)

    peak = max(goodput(load) for load in (0.8, 1.0, 1.2))

    assert goodput(2.0) >= 0.85 * peak
    assert peak >= 0.85 * CAPACITY


def test_without_a_limit_the_same_overload_leaves_next_to_nothing() -> None:
    """The model is one in which a limit is needed."""
    bounds = Bounds(minimum=100_000, initial=100_000, maximum=100_000)

    run = Overload(rate=2 * CAPACITY, bounds=bounds)
    run.control.take = lambda *_: None  # type: ignore[method-assign] # everybody comes in
    run.run(WARM_UP + 3)

    assert run.goodput(after=WARM_UP) < 0.3 * CAPACITY


def test_a_server_that_starts_under_overload_finds_out_what_unloaded_means() -> None:
    run = Overload(rate=2 * CAPACITY).run(WARM_UP)

    unloaded = run.control.adaptive.latencies.unloaded(METHOD)
    assert unloaded == pytest.approx(0.020, rel=0.1)
    assert 8 < run.control.adaptive.limit <= 24


def test_little_load_is_never_refused() -> None:
    run = Overload(rate=0.3 * CAPACITY, service=scattered).run(20)

    assert 0 == run.refused


def test_a_dependency_that_hangs_and_comes_back_is_used_in_full_again() -> None:
    def hangs(_random: Random, now: float) -> float:
        return 0.020 + max(0.0, 8 - now) if now >= 5 else 0.020

    run = Overload(rate=2 * CAPACITY, service=hangs).run(16)

    assert run.goodput(after=5.5, until=8) == 0
    assert run.goodput(after=10) >= 0.85 * CAPACITY


def test_a_dependency_that_became_slower_by_itself_is_believed() -> None:
    def slower(_random: Random, now: float) -> float:
        return 0.020 if now < 10 else 0.080

    run = Overload(rate=0.5 * CAPACITY / 4, service=slower).run(40)

    unloaded = run.control.adaptive.latencies.unloaded(METHOD)
    assert unloaded == pytest.approx(0.080, rel=0.1)
    assert 0 == run.refused


class Calls:
    """Calls made side by side against a limit alone."""

    def __init__(self, bounds: Bounds) -> None:
        self.clock = FakeClock()
        self.limit = GradientLimit(bounds, clock=self.clock)

    def make(
        self, took: float, *, rounds: int, at_once: int, method: str = METHOD, timed_out: bool = False
    ) -> None:
        for _ in range(rounds):
            samples = [self.limit.begin(method, in_flight=number + 1) for number in range(at_once)]
            self.clock.advance(took)
            for sample in samples:
                self.limit.end(sample, answered=not timed_out, timed_out=timed_out)


def test_the_limit_does_not_grow_while_less_than_half_of_it_is_used() -> None:
    calls = Calls(Bounds(minimum=1, initial=32))

    calls.make(0.020, rounds=200, at_once=15)
    assert 32 == calls.limit.limit
    calls.make(0.020, rounds=200, at_once=17)
    assert calls.limit.limit > 32


def test_an_idle_server_whose_dependency_slows_down_keeps_room_for_twice_what_it_serves() -> None:
    calls = Calls(Bounds(minimum=1, initial=100))
    calls.make(0.020, rounds=100, at_once=10)
    calls.make(0.100, rounds=9, at_once=10)

    assert 20 <= calls.limit.limit < 100


def test_timeouts_lower_the_limit_to_its_minimum_and_not_below() -> None:
    calls = Calls(Bounds(minimum=5, initial=100))
    calls.make(0.020, rounds=50, at_once=60)
    calls.make(0.300, rounds=40, at_once=60, timed_out=True)

    assert 5 == calls.limit.limit


def test_callers_without_patience_do_not_close_the_server_for_others() -> None:
    calls = Calls(Bounds(minimum=5, initial=100))
    calls.make(0.100, rounds=50, at_once=60)
    before = calls.limit.limit
    calls.make(0.050, rounds=500, at_once=60, timed_out=True)

    assert before == calls.limit.limit


def test_a_change_of_the_mix_of_methods_is_no_congestion() -> None:
    calls = Calls(Bounds(minimum=5, initial=100))
    calls.make(0.002, rounds=500, at_once=60, method="/x/Quick")
    calls.make(0.300, rounds=10, at_once=60, method="/x/Slow")
    before = calls.limit.limit
    calls.make(0.300, rounds=20, at_once=60, method="/x/Slow")

    assert calls.limit.limit >= before
    assert not calls.limit.probing


def test_a_probe_lasts_a_moment_and_comes_at_most_every_ten_seconds() -> None:
    run = Overload(rate=2 * CAPACITY)
    probing = [run.run(step / 100).control.adaptive.probing for step in range(3000)]

    assert 0 < sum(probing) <= 3 * 20  # hundredths of a second, in half a minute


@pytest.mark.parametrize(
    ("bounds", "field"),
    [({"minimum": 0}, "minimum"), ({"minimum": 9, "initial": 8}, "initial"), ({"maximum": 63}, "initial")],
)
def test_bounds_that_make_no_sense_are_refused_by_field(bounds: dict[str, int], field: str) -> None:
    with pytest.raises(ValueError, match=f"^{field}: "):
        Bounds(**bounds)
