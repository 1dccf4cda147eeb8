import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from budget.wire import LONGEST_WIRE_TIMEOUT, WIRE_STEP, floor_to_wire_grid
from tests.unit.budget.c_core import encoded, seen_by_callee

timeouts = st.one_of(
    st.floats(0, 20), st.floats(0, 2_000), st.floats(0, 200_000), st.floats(0, LONGEST_WIRE_TIMEOUT * 2)
)


@given(timeouts)
@example(1.001)
@example(10.001)
@example(96_300.0)
@example(1.13)
def test_a_floored_timeout_leaves_exactly_as_it_is(seconds: float) -> None:
    floored = floor_to_wire_grid(seconds)
    assert floored == encoded(round(floored * 1000)) / 1000


@given(timeouts)
def test_flooring_never_adds_time_and_takes_at_most_a_tenth(seconds: float) -> None:
    floored = floor_to_wire_grid(seconds)
    assert floored <= seconds + 1e-9
    if 0.01 <= seconds <= LONGEST_WIRE_TIMEOUT:
        assert floored >= seconds * 0.9


@given(timeouts)
def test_flooring_twice_is_flooring_once(seconds: float) -> None:
    once = floor_to_wire_grid(seconds)
    assert once == floor_to_wire_grid(once)


@given(timeouts, st.floats(0, 1, exclude_max=True))
def test_one_step_less_covers_the_milliseconds_that_c_core_adds(seconds: float, phase: float) -> None:
    floored = floor_to_wire_grid(seconds)
    if floored > WIRE_STEP:
        assert seen_by_callee(floored - WIRE_STEP, phase=phase) <= floored


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.0, 0.0),
        (-1.0, 0.0),
        (0.0004, 0.0),
        (0.3, 0.3),
        (1.009, 1.0),
        (10.09, 10.0),
        (100.9, 100.0),
        (1009.0, 1000.0),
        (math.inf, LONGEST_WIRE_TIMEOUT),
    ],
)
def test_the_grid(seconds: float, expected: float) -> None:
    assert expected == floor_to_wire_grid(seconds)


def test_not_a_number_is_refused() -> None:
    with pytest.raises(ValueError, match="seconds"):
        floor_to_wire_grid(math.nan)
