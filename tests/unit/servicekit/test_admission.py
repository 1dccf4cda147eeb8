"""The door: who may start, what is counted, and that every slot comes back."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from budget.core import Budget
from servicekit.admission import AdmissionControl, AdmissionLimits, Overloaded, Passage, Refusal
from servicekit.endings import Ending
from servicekit.errors import status_of
from servicekit.gradient_limit import Bounds
from servicekit.methods import Admission, MethodPolicy
from tests.unit.budget.clocks import FakeClock

METHOD = "/x/Y"


class Door:
    """A control with a clock of its own and requests that come and go."""

    def __init__(self, *, limit: int = 2, minimum: int = 1, waiting: int = 2, look_ups: int = 2) -> None:
        self.clock = FakeClock()
        bounds = Bounds(minimum=minimum, initial=limit, maximum=64)
        limits = AdmissionLimits(adaptive=bounds, waiting=waiting, look_ups=look_ups)
        self.control = AdmissionControl(limits, clock=self.clock)

    def come(
        self, kind: Admission = Admission.NORMAL, *, budget: float = 5.0, method: str = METHOD
    ) -> Passage:
        time = Budget.root(incoming=budget, default=None, cap=None, clock=self.clock)
        passage = self.control.passage(METHOD, kind, time)
        passage.arrive()
        return passage

    def refused(self, kind: Admission = Admission.NORMAL, *, budget: float = 5.0) -> Overloaded:
        with pytest.raises(Overloaded) as caught:
            self.come(kind, budget=budget)
        return caught.value

    def serve(self, took: float, *, calls: int, at_once: int = 1, ending: Ending = Ending.OK) -> None:
        """Serves calls that take so long, so many of them side by side."""
        for _ in range(calls // at_once):
            passages = [self.come() for _ in range(at_once)]
            self.clock.advance(took)
            for passage in passages:
                passage.leave(ending)

    @property
    def in_flight(self) -> dict[Admission, int]:
        return {kind: slots.in_flight for kind, slots in self.control.slots.items() if slots.in_flight}


def test_methods_are_admitted_as_normal_calls_unless_their_policy_says_otherwise() -> None:
    assert Admission.NORMAL is MethodPolicy(default=1.0, cap=5.0).admission


@pytest.mark.parametrize(
    ("kind", "refusal"),
    [
        (Admission.NORMAL, Refusal.CONCURRENCY),
        (Admission.COUNT, Refusal.WAITING_CALLS),
        (Admission.DEFERRED, Refusal.LOOK_UPS),
    ],
)
def test_each_kind_has_a_limit_of_its_own_and_is_refused_beyond_it(kind: Admission, refusal: Refusal) -> None:
    door = Door()
    passages = [door.come(kind) for _ in range(2)]

    assert refusal is door.refused(kind).refusal
    assert {(METHOD, refusal): 1} == door.control.refusals
    for other in Admission:
        if other is not kind:
            door.come(other).leave(Ending.OK)

    passages[0].leave(Ending.OK)
    door.come(kind)
    assert {kind: 2} == door.in_flight


def test_exempt_calls_always_come_in() -> None:
    door = Door(limit=1)
    door.come()

    for _ in range(100):
        door.come(Admission.EXEMPT)
    assert {Admission.NORMAL: 1} == door.in_flight


def test_a_refusal_says_why_and_when_to_come_back() -> None:
    door = Door(limit=1)
    door.come()

    error = door.refused()
    status = status_of(error)

    assert {"refusal": "concurrency"} == error.metadata
    assert 0.05 <= error.retry_after <= 10
    assert ["google.rpc.ErrorInfo", "google.rpc.RetryInfo"] == [
        detail.TypeName() for detail in status.details
    ]


def test_a_deferred_call_leaves_its_small_count_when_it_is_admitted() -> None:
    door = Door()
    passage = door.come(Admission.DEFERRED)
    assert {Admission.DEFERRED: 1} == door.in_flight

    passage.admit()
    passage.admit()  # once is enough, twice does no harm
    assert {Admission.NORMAL: 1} == door.in_flight

    passage.leave(Ending.OK)
    assert {} == door.in_flight


def test_a_deferred_call_answers_while_the_door_is_closed_and_is_refused_only_when_it_asks() -> None:
    door = Door(limit=1)
    door.come()
    replay, new = door.come(Admission.DEFERRED), door.come(Admission.DEFERRED)

    replay.leave(Ending.OK)
    with pytest.raises(Overloaded) as caught:
        new.admit()

    assert Refusal.CONCURRENCY is caught.value.refusal
    assert {Admission.NORMAL: 1, Admission.DEFERRED: 1} == door.in_flight
    new.leave(Ending.ERROR)
    assert {Admission.NORMAL: 1} == door.in_flight


def test_a_deferred_call_that_never_asks_holds_up_only_its_own_kind() -> None:
    door = Door(limit=8, look_ups=2)
    for _ in range(2):
        door.come(Admission.DEFERRED)

    assert Refusal.LOOK_UPS is door.refused(Admission.DEFERRED).refusal
    assert {Admission.DEFERRED: 2} == door.in_flight
    for _ in range(8):
        door.come()


def test_a_call_that_has_ended_cannot_be_admitted_any_more() -> None:
    door = Door()
    passage = door.come(Admission.DEFERRED)
    passage.leave(Ending.CALLER_CANCELLED)

    with pytest.raises(RuntimeError, match="ended"):
        passage.admit()
    assert {} == door.in_flight


def test_a_budget_that_does_not_cover_the_wait_is_refused_and_a_longer_one_comes_in() -> None:
    door = Door(limit=64, minimum=64)
    door.serve(0.020, calls=100)  # unloaded: 20 ms
    door.serve(0.200, calls=40, at_once=20)  # congested: 180 ms of waiting behind 20 others
    crowd = [door.come() for _ in range(20)]

    assert Refusal.WAIT is door.refused(budget=0.15).refusal
    crowd.append(door.come(budget=0.4))
    for passage in crowd:
        passage.leave(Ending.CALLER_CANCELLED)
    door.come(budget=0.15)  # nobody is ahead now


def test_what_was_learned_about_the_wait_is_forgotten_after_a_while_without_news() -> None:
    door = Door(limit=64, minimum=64)
    door.serve(0.020, calls=100)
    door.serve(0.200, calls=40, at_once=20)
    for _ in range(20):
        door.come()

    assert Refusal.WAIT is door.refused(budget=0.15).refusal
    door.clock.advance(3.0)
    door.come(budget=0.15)


@pytest.mark.parametrize(
    "ending", [Ending.CALLER_CANCELLED, Ending.ERROR, Ending.DRAINING, Ending.SPURIOUS_CANCEL, None]
)
def test_calls_whose_end_says_nothing_about_load_teach_nothing(ending: Ending | None) -> None:
    door = Door(limit=4)
    for _ in range(50):
        passages = [door.come() for _ in range(4)]
        door.clock.advance(0.5)
        for passage in passages:
            passage.leave(ending)

    assert 4 == door.control.adaptive.limit
    assert door.control.adaptive.latencies.unloaded(METHOD) is None


def test_calls_that_wait_on_purpose_teach_nothing() -> None:
    door = Door(waiting=64)
    for _ in range(50):
        passage = door.come(Admission.COUNT)
        door.clock.advance(30.0)
        passage.leave(Ending.OK)

    assert door.control.adaptive.latencies.unloaded(METHOD) is None


Step = Callable[[Door, list[Passage]], None]


def come(kind: Admission, budget: float) -> Step:
    return lambda door, inside: inside.append(door.come(kind, budget=budget))


def wait(seconds: float) -> Step:
    return lambda door, _inside: door.clock.advance(seconds)


def admit(which: int) -> Step:
    return lambda _door, inside: inside[which % len(inside)].admit() if inside else None


def leave(which: int, ending: Ending | None) -> Step:
    def step(_door: Door, inside: list[Passage]) -> None:
        if inside:
            passage = inside.pop(which % len(inside))
            passage.leave(ending)
            passage.leave(Ending.OK)  # the first end counts

    return step


NUMBERS = st.integers(min_value=0, max_value=1000)
STEPS = st.one_of(
    st.builds(come, st.sampled_from(list(Admission)), st.floats(min_value=0.02, max_value=10)),
    st.builds(wait, st.floats(min_value=0, max_value=2)),
    st.builds(admit, NUMBERS),
    st.builds(leave, NUMBERS, st.sampled_from([*Ending, None])),
)


@settings(deadline=None)
@given(st.lists(STEPS, max_size=150), st.integers(min_value=1, max_value=6))
def test_no_order_of_events_leaks_a_slot_or_leaves_the_bounds(steps: list[Step], limit: int) -> None:
    door = Door(limit=limit)
    inside: list[Passage] = []
    for step in steps:
        with suppress(Overloaded):
            step(door, inside)
        counts = [slots.in_flight for slots in door.control.slots.values()]
        assert min(counts) >= 0
        assert sum(counts) <= len(inside)
        assert 1 <= door.control.adaptive.limit <= 64

    for passage in inside:
        passage.leave(None)
    assert {} == door.in_flight
