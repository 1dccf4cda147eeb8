"""A model of how gRPC's C core turns a timeout into what the callee reads.

Written from the behaviour of timeout_encoding.cc and of the timestamp conversions of gRPC 1.85: a model
of the peer. Integer milliseconds.
"""

import math

_LONGEST_HOURS = 27_000


def seen_by_callee(timeout: float, *, phase: float = 0.0) -> float:
    """Seconds that the callee believes to have, for a call made `phase` of a millisecond after a tick."""
    deadline = math.ceil(timeout * 1000 + phase - 1e-6)
    return encoded(deadline) / 1000


def encoded(milliseconds: int) -> int:
    """Milliseconds after C core's encoding, which always rounds up."""
    if milliseconds < 1000:
        return milliseconds
    if milliseconds < 10_000:
        return _up(milliseconds, 10)
    if milliseconds < 100_000:
        return _up(milliseconds, 100)
    return _seconds(_up(milliseconds, 1000) // 1000) * 1000


def _seconds(seconds: int) -> int:
    for below, step in ((1000, 1), (10_000, 10), (100_000, 100)):
        if seconds < below:
            rounded = _up(seconds, step)
            return rounded if rounded % 60 else _minutes(_up(seconds, 60) // 60) * 60
    return _minutes(_up(seconds, 60) // 60) * 60


def _minutes(minutes: int) -> int:
    for below, step in ((1000, 1), (10_000, 10), (100_000, 100)):
        if minutes < below:
            rounded = _up(minutes, step)
            return rounded if rounded % 60 else _up(minutes, 60)
    return min(_up(minutes, 60), _LONGEST_HOURS * 60)


def _up(value: int, step: int) -> int:
    return -(-value // step) * step
