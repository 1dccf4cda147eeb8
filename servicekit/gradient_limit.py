"""How many requests a server may have in flight, learned from how long they take.

A gradient controller, because it sees a queue grow before anything fails; AIMD (Netflix's AIMDLimit, TCP)
needs timeouts to learn, and under overload keeps every caller's wait just below them. As in Netflix's
concurrency-limits (Gradient2Limit; "Performance under load", 2018):

    limit <- smoothed(limit * gradient + sqrt(limit)),  gradient = tolerance * unloaded / measured in [0.5, 1]

with no growth while less than half of the limit is used. Gradient2 compares with a long average of the
latency itself, which under lasting overload learns the queue as normal. So, as in Envoy's gradient
controller, the unloaded latency is measured: while calls are congested the limit drops to its minimum for a
moment, at most every PROBE_INTERVAL (BBR does the same for its round-trip time), and the calls that begin in
that moment tell. Two things are ours: each method is compared with its own latency, so that a change of the
mix is no congestion; and a window's timeouts lower the gradient by their share.
"""

import math
from dataclasses import dataclass, field
from typing import Final

from budget.core import Clock
from servicekit.latency import TOLERANCE, Latencies, Sums

SHORTEST_WINDOW: Final = 0.1
LONGEST_WINDOW: Final = 1.0
LEAST_CALLS: Final = 10
PROBE_INTERVAL: Final = 10.0
_FIRST_PROBE: Final = 1.0
_SMOOTHING: Final = 0.3
_STEEPEST: Final = 0.5
_USUAL_AT_FIRST: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Where the limit may go, and where it starts. ValueError names the field."""

    minimum: int = 8
    initial: int = 64
    maximum: int = 512

    def __post_init__(self) -> None:
        """At least 1, in this order."""
        if self.minimum < 1:
            raise ValueError(f"minimum: {self.minimum}, wanted 1 or more")
        if not self.minimum <= self.initial <= self.maximum:
            raise ValueError(f"initial: {self.initial}, wanted {self.minimum} to {self.maximum}")


@dataclass(slots=True, kw_only=True)
class _Window:
    """The calls that ended since `started`."""

    started: float
    peak: int = 0
    calls: dict[str, Sums] = field(default_factory=dict)

    @property
    def ended(self) -> int:
        return sum(sums.ended for sums in self.calls.values())

    @property
    def answered(self) -> int:
        return sum(sums.answered for sums in self.calls.values())


@dataclass(slots=True, kw_only=True)
class _Probe:
    """The calls that began since `started`, while few were in flight; of all of them, or else the quick ones
    would speak for the rest."""

    started: float
    begun: int = 0
    open: int = 0
    calls: dict[str, Sums] = field(default_factory=dict)

    def is_over(self, now: float) -> bool:
        age = now - self.started
        return age >= LONGEST_WINDOW or (age >= SHORTEST_WINDOW and self.begun >= LEAST_CALLS)


@dataclass(slots=True, kw_only=True)
class Sample:
    """One call, from its start on. `in_flight` counts itself."""

    method: str
    started: float
    in_flight: int
    probe: _Probe | None


class GradientLimit:
    """The limit, and the latencies it is drawn from. Seconds of `clock`; no I/O, no tasks."""

    def __init__(self, bounds: Bounds, *, clock: Clock) -> None:
        self.latencies = Latencies()
        self.usual = _USUAL_AT_FIRST
        """Seconds that calls took in the latest window, all methods together."""
        self._bounds = bounds
        self._clock = clock
        self._limit = float(bounds.initial)
        self._window = _Window(started=clock())
        self._probe: _Probe | None = None
        self._next_probe = clock() + _FIRST_PROBE

    @property
    def limit(self) -> int:
        """How many may be in flight now."""
        return self._bounds.minimum if self.probing else int(self._limit)

    @property
    def probing(self) -> bool:
        """True while the limit is at its minimum to measure the unloaded latency."""
        return self._probe is not None and not self._probe.is_over(self._clock())

    def begin(self, method: str, *, in_flight: int) -> Sample:
        """One call starts; `end` must follow."""
        probe = self._probe if self.probing else None
        if probe is not None:
            probe.begun += 1
            probe.open += 1
        return Sample(method=method, started=self._clock(), in_flight=in_flight, probe=probe)

    def end(self, sample: Sample, *, answered: bool, timed_out: bool) -> None:
        """It ended: answered, timed out, or (neither) in a way that says nothing about load."""
        now = self._clock()
        if self._window_is_over(now):
            self._close(now)
        took = now - sample.started
        if answered or (timed_out and not self._is_impatient(sample.method, took)):
            self._count(sample, took, timed_out=timed_out)
        if sample.probe is not None:
            sample.probe.open -= 1
        self._learn_from_probe(now)

    def _is_impatient(self, method: str, took: float) -> bool:
        # A caller without patience is no sign of load: else one could close the server for all others.
        unloaded = self.latencies.unloaded(method)
        return unloaded is not None and took < TOLERANCE * unloaded

    def _count(self, sample: Sample, took: float, *, timed_out: bool) -> None:
        self._window.peak = max(self._window.peak, sample.in_flight)
        for calls in (self._window.calls, sample.probe.calls if sample.probe else None):
            if calls is not None:
                sums = calls.setdefault(sample.method, Sums())
                sums.add(took, in_flight=sample.in_flight, timed_out=timed_out)

    def _learn_from_probe(self, now: float) -> None:
        probe = self._probe
        if probe is not None and not probe.open and probe.is_over(now):
            self._probe = None
            self.latencies.replace_unloaded(probe.calls)

    def _window_is_over(self, now: float) -> bool:
        age = now - self._window.started
        return age >= LONGEST_WINDOW or (age >= SHORTEST_WINDOW and self._window.ended >= LEAST_CALLS)

    def _close(self, now: float) -> None:
        window, self._window = self._window, _Window(started=now)
        if not window.ended:
            return
        self.usual = sum(sums.ended_took for sums in window.calls.values()) / window.ended
        self.latencies.learn(window.calls, now=now)
        if not self.probing:
            self._adapt(window, self.latencies.gradient(window.calls), now)

    def _adapt(self, window: _Window, gradient: float, now: float) -> None:
        steepness = max(_STEEPEST, min(gradient, window.answered / window.ended))
        wanted = self._limit * steepness + math.sqrt(self._limit)
        limit = self._limit + _SMOOTHING * (wanted - self._limit)
        if window.peak < self._limit / 2:  # what is not used is not needed, and says nothing
            limit = min(self._limit, max(limit, 2.0 * window.peak))
        self._limit = min(max(limit, self._bounds.minimum), self._bounds.maximum)
        if gradient < 1 and now >= self._next_probe:
            self._next_probe = now + PROBE_INTERVAL
            self._probe = _Probe(started=now)
