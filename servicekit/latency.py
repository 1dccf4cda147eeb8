"""How long the calls of each method take: when nothing is in their way, and lately."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

TOLERANCE: Final = 1.5
"""A method is congested when its calls take this many times as long as they do unloaded."""

_FALL: Final = 0.1  # how much of the way the unloaded time follows a faster window
_FIRST_CALLS: Final = 50
_MEMORY: Final = 2.0  # seconds for which a measurement says something about the present


@dataclass(slots=True)
class Sums:
    """The calls of one method that ended in a window; times are seconds."""

    answered: int = 0
    answered_took: float = 0.0
    ended: int = 0
    ended_took: float = 0.0
    in_flight: int = 0

    def add(self, took: float, *, in_flight: int, timed_out: bool) -> None:
        """One call that ended. A timeout tells how long one waits, but not how long an answer takes."""
        self.ended += 1
        self.ended_took += took
        self.in_flight += in_flight
        if not timed_out:
            self.answered += 1
            self.answered_took += took


@dataclass(slots=True, kw_only=True)
class _Lately:
    congested: bool
    wait: float
    in_flight: float
    measured: float


class Latencies:
    """Remembers both times for each method.

    The unloaded time is the mean of a method's first calls. After them it follows faster windows slowly, by
    their mean (a minimum would take the luckiest calls for the rule), and never slower ones, which may be
    slow because of us: it rises only by what is measured on purpose, under little load.
    """

    def __init__(self) -> None:
        self._unloaded: dict[str, float] = {}
        self._first: dict[str, Sums] = {}
        self._lately: dict[str, _Lately] = {}

    def unloaded(self, method: str) -> float | None:
        """Seconds that a call takes when nothing is in its way; None when no call has told yet."""
        return self._unloaded.get(method)

    def learn(self, calls: Mapping[str, Sums], *, now: float) -> None:
        """Takes in the calls that ended in one window."""
        for method, sums in calls.items():
            if sums.answered:
                self._follow(method, sums)
            self._lately[method] = _lately(sums, self._unloaded.get(method), now)

    def replace_unloaded(self, calls: Mapping[str, Sums]) -> None:
        """Takes in calls that were made under little load, with nothing in their way."""
        for method, sums in calls.items():
            if sums.answered:
                self._unloaded[method] = sums.answered_took / sums.answered

    def _follow(self, method: str, sums: Sums) -> None:
        first = self._first.setdefault(method, Sums())
        took = sums.answered_took / sums.answered
        if first.answered < _FIRST_CALLS:
            first.answered += sums.answered
            first.answered_took += sums.answered_took
            self._unloaded[method] = first.answered_took / first.answered
        elif took < (known := self._unloaded[method]):
            self._unloaded[method] = known + _FALL * (took - known)

    def wait(self, method: str, *, in_flight: int, now: float) -> float:
        """Seconds that a call which begins now would stand behind others; 0 when the method is not congested.

        What calls waited lately, scaled to how many are ahead now (Little's law). After a while without news
        it is forgotten, so that somebody tries.
        """
        lately = self._lately.get(method)
        if lately is None or not lately.congested or now - lately.measured > _MEMORY:
            return 0.0
        return lately.wait * min(1.0, in_flight / lately.in_flight)

    def gradient(self, calls: Mapping[str, Sums]) -> float:
        """How a window compares with calls that nothing is in the way of: 1 = as quick, or within the
        tolerance; 0.5 = twice as slow as tolerated. Methods count by the time that they took."""
        took = sum(sums.answered_took for sums in calls.values())
        unloaded = sum(self._unloaded.get(method, 0.0) * sums.answered for method, sums in calls.items())
        return min(1.0, TOLERANCE * unloaded / took) if took else 1.0


def _lately(sums: Sums, unloaded: float | None, now: float) -> _Lately:
    # A call that timed out has waited all its time: what it would have needed is still to come.
    waited = sums.ended_took - (unloaded or 0.0) * sums.answered
    return _Lately(
        congested=unloaded is not None and sums.ended_took > TOLERANCE * unloaded * sums.ended,
        wait=max(0.0, waited / sums.ended),
        in_flight=max(1.0, sums.in_flight / sums.ended),
        measured=now,
    )
