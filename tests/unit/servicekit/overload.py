"""A model of a server before a dependency of fixed capacity, in simulated time.

Requests arrive at random, pass the door or are refused, wait for one of the dependency's slots, are served,
and end with their answer or with their budget. What nobody waits for any more leaves the queue, but a slot
that has begun works on to its end.
"""

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from random import Random

from budget.core import Budget
from servicekit.admission import AdmissionControl, AdmissionLimits, Overloaded, Passage
from servicekit.endings import Ending
from servicekit.gradient_limit import Bounds
from servicekit.methods import Admission
from tests.unit.budget.clocks import FakeClock


@dataclass(kw_only=True, eq=False)
class Arrival:
    passage: Passage
    ended: bool = False


@dataclass(kw_only=True)
class Overload:
    """One run. `service` gives the seconds that a slot works on a request that it begins at an instant."""

    rate: float
    slots: int = 8
    service: Callable[[Random, float], float] = lambda _random, _now: 0.020
    budget: float = 0.3
    bounds: Bounds | None = None
    seed: int = 1
    answered: list[float] = field(default_factory=list)
    """Instants of answers in time."""
    refused: int = 0

    def __post_init__(self) -> None:
        self.clock = FakeClock(now=0.0)
        self.random = Random(self.seed)
        self.control = AdmissionControl(
            AdmissionLimits(adaptive=self.bounds or Bounds()), clock=self.clock, random=self.random
        )
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._queue: deque[Arrival] = deque()
        self._free = self.slots
        self._at(0.0, self._arrive)

    def run(self, until: float) -> "Overload":
        """Lets time pass until an instant."""
        while self._events and self._events[0][0] <= until:
            instant, _, event = heapq.heappop(self._events)
            self.clock.now = instant
            event()
        return self

    def goodput(self, *, after: float, until: float | None = None) -> float:
        """Answers in time per second, between two instants."""
        end = self.clock.now if until is None else until
        return sum(after <= instant < end for instant in self.answered) / (end - after)

    def _at(self, delay: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.clock.now + delay, next(self._order), event))

    def _arrive(self) -> None:
        self._at(self.random.expovariate(self.rate), self._arrive)
        budget = Budget.root(incoming=self.budget, default=None, cap=None, clock=self.clock)
        arrival = Arrival(passage=self.control.passage("/x/Y", Admission.NORMAL, budget))
        try:
            arrival.passage.arrive()
        except Overloaded:
            self.refused += 1
            arrival.passage.leave(Ending.ERROR)
            return
        self._at(budget.spendable(), partial(self._end, arrival, Ending.UPSTREAM_TIMEOUT))
        self._queue.append(arrival)
        self._serve()

    def _serve(self) -> None:
        while self._free and self._queue:
            arrival = self._queue.popleft()
            if not arrival.ended:
                self._free -= 1
                self._at(self.service(self.random, self.clock.now), partial(self._finish, arrival))

    def _finish(self, arrival: Arrival) -> None:
        self._free += 1
        if not arrival.ended:
            self.answered.append(self.clock.now)
        self._end(arrival, Ending.OK)
        self._serve()

    def _end(self, arrival: Arrival, ending: Ending) -> None:
        if not arrival.ended:
            arrival.ended = True
            arrival.passage.leave(ending)
