"""The grid of values that a `grpc-timeout` header can carry, as gRPC's C core writes it.

C core encodes a timeout with two or three significant digits and rounds UP (its timeout_encoding.cc): 1.001 s
leaves as 1010 ms, 100.1 s as 101 s, and the callee believes in a later end than its caller. A value that is
on the grid already is not rounded, so ours are floored to it first.
"""

import math
from typing import Final

_SECOND: Final = 1_000_000_000  # nanoseconds

# (below this, the step), both in nanoseconds; from 60 000 s on C core counts in tens of minutes.
_GRID: Final = (
    (1 * _SECOND, _SECOND // 1000),
    (10 * _SECOND, _SECOND // 100),
    (100 * _SECOND, _SECOND // 10),
    (1_000 * _SECOND, _SECOND),
    (10_000 * _SECOND, 10 * _SECOND),
    (60_000 * _SECOND, 100 * _SECOND),
    (600_000 * _SECOND, 600 * _SECOND),
    (6_000_000 * _SECOND, 6_000 * _SECOND),
)
_HOUR: Final = 3600 * _SECOND

LONGEST_WIRE_TIMEOUT: Final = 27_000 * 3600.0
"""Seconds. Anything longer leaves as 27 000 hours."""

WIRE_STEP: Final = 0.001
"""Seconds. The finest step of the grid, and how far C core may go beyond what it was given before it encodes:
it keeps instants in whole milliseconds, rounds the deadline up and the present down."""


def floor_to_wire_grid(seconds: float) -> float:
    """The longest timeout of at most `seconds` that leaves unrounded; 0.0 if there is none."""
    if math.isnan(seconds):
        raise ValueError("seconds: not a number")
    if seconds <= 0:
        return 0.0
    if seconds >= LONGEST_WIRE_TIMEOUT:
        return LONGEST_WIRE_TIMEOUT
    nanoseconds = round(seconds * _SECOND)
    step = _step(nanoseconds)
    return nanoseconds // step * step / _SECOND


def _step(nanoseconds: int) -> int:
    for below, step in _GRID:
        if nanoseconds < below:
            return step
    return _HOUR
