import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budget.core import Budget
from budget.errors import BudgetExhausted
from tests.unit.budget.c_core import seen_by_callee
from tests.unit.budget.clocks import FakeClock

seconds = st.floats(0, 400)
A_YEAR = 365 * 86_400.0


def root(incoming: float | None = 2.0, *, clock: FakeClock | None = None) -> Budget:
    return Budget.root(incoming=incoming, default=1.0, cap=400.0, clock=clock or FakeClock())


@pytest.mark.parametrize(
    ("incoming", "default", "cap", "expected"),
    [
        (None, 0.8, 5.0, 0.8),
        (0.3, 0.8, 5.0, 0.3),
        (A_YEAR, 0.8, 5.0, 5.0),
        (0.0, 0.8, 5.0, 0.0),
        (-3.0, 0.8, 5.0, 0.0),
        (None, 9.0, 5.0, 5.0),
        (None, None, 5.0, 5.0),
        (7.0, None, None, 7.0),
    ],
)
def test_the_root_is_the_shorter_of_deadline_and_cap_or_else_the_default(
    incoming: float | None, default: float | None, cap: float | None, expected: float
) -> None:
    made = Budget.root(incoming=incoming, default=default, cap=cap, clock=FakeClock())
    assert expected == made.initial == pytest.approx(made.remaining())


@pytest.mark.parametrize("incoming", [None, math.inf])
def test_a_request_without_any_end_is_refused(incoming: float | None) -> None:
    with pytest.raises(ValueError, match="needs an end"):
        Budget.root(incoming=incoming, default=None, cap=None)


@given(seconds)
def test_the_reserve_is_a_tenth_between_15_and_250_ms(total: float) -> None:
    made = root(total)
    assert made.reserve == pytest.approx(min(max(total / 10, 0.015), 0.250))
    assert max(0.0, total - made.reserve) == pytest.approx(made.spendable(), abs=1e-9)


def test_background_work_keeps_no_reserve() -> None:
    work = Budget.for_work(0.5, clock=FakeClock())
    assert (work.reserve, work.spendable()) == (0.0, 0.5)


@pytest.mark.parametrize("limit", [0.0, -1.0, math.inf, math.nan])
def test_background_work_has_a_sensible_end(limit: float) -> None:
    with pytest.raises(ValueError, match="limit"):
        Budget.for_work(limit)


@given(total=seconds, steps=st.lists(st.tuples(seconds, st.floats(0, 3)), max_size=8))
def test_no_order_of_operations_extends_a_deadline(total: float, steps: list[tuple[float, float]]) -> None:
    clock = FakeClock()
    family = [root(total, clock=clock)]
    for limit, pause in steps:
        clock.advance(pause)
        parent = family[-1]
        child = parent.child(limit)
        assert child.deadline <= max(parent.deadline - parent.reserve, clock())
        assert child.deadline <= max(clock() + limit, clock())
        assert child.spendable() <= parent.spendable()
        family.append(child)
    assert all(one.deadline <= family[0].deadline or one.initial == 0 for one in family)


@given(total=seconds, limit=seconds, waited=st.floats(0, 5), phase=st.floats(0, 1, exclude_max=True))
def test_a_child_never_outlives_its_parent_as_the_callee_sees_it(
    total: float, limit: float, waited: float, phase: float
) -> None:
    clock = FakeClock()
    parent = root(total, clock=clock)
    child = parent.child(limit)
    clock.advance(waited)
    try:
        timeout = child.wire_timeout()
    except BudgetExhausted:
        assert child.spendable() <= 0.002
        return
    assert timeout is not None
    assert timeout > 0
    assert seen_by_callee(timeout, phase=phase) <= child.spendable() + 1e-9
    assert child.spendable() <= parent.spendable()


def test_a_child_of_plenty_is_exactly_its_limit() -> None:
    assert root(2.0).child(0.3).initial == 0.3


def test_a_child_of_little_is_what_is_left_after_the_reserve_on_the_wires_grid() -> None:
    clock = FakeClock()
    parent = root(2.0, clock=clock)
    clock.advance(0.4567)
    assert parent.child(5.0).initial == 1.34


def test_nothing_is_left_of_a_spent_budget() -> None:
    clock = FakeClock()
    spent = root(1.0, clock=clock)
    clock.advance(3.0)
    assert (spent.remaining(), spent.spendable(), spent.child(1.0).initial) == (0.0, 0.0, 0.0)
    with pytest.raises(BudgetExhausted):
        spent.wire_timeout()


def test_children_write_into_their_parents_ledger() -> None:
    parent = root()
    assert parent.ledger is parent.child(1.0).child(0.5).ledger


def test_a_stream_may_be_without_an_end_but_its_reads_are_not() -> None:
    stream = Budget.for_stream(incoming=None, clock=FakeClock())
    assert (stream.unbounded, stream.wire_timeout()) == (True, None)
    assert (stream.child(0.15).unbounded, stream.child(0.15).initial) == (False, 0.15)


def test_a_streams_own_deadline_holds() -> None:
    stream = Budget.for_stream(incoming=3.0, clock=FakeClock())
    assert (stream.remaining(), stream.unbounded) == (3.0, False)
