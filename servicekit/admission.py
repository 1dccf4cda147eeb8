"""Who may start: requests that a server cannot serve in time are refused before they cost anything.

Nobody queues here: a caller who is told at once can go elsewhere or come back, one who waits cannot. A
request is refused with RESOURCE_EXHAUSTED/OVERLOADED and a RetryInfo when the adaptive limit is reached, or
when its budget does not cover the wait behind those in flight and its own unloaded time.

What each method has to pass stands in its MethodPolicy. A `deferred` one starts under a small count of its
own and passes the real door when its handler says so:

    known = await find_key(...)          # a replay answers here, while admission is closed
    if known is None:
        call_of(context).admit()         # raises Overloaded; holds from here to the end of the request
        ...

A handler that never asks stays under that small count for its whole life: it can hold up its own kind, never
the server. Every slot is given back by the interceptor when the request ends, in whatever way.
"""

import time
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Final, assert_never

from budget.core import Budget, Clock
from servicekit.endings import Ending
from servicekit.gradient_limit import Bounds, GradientLimit, Sample
from servicekit.methods import Admission

_TIMEOUTS: Final = frozenset({Ending.BUDGET_EXHAUSTED, Ending.UPSTREAM_TIMEOUT, Ending.CALLER_DEADLINE})
_SHORTEST_RETRY: Final = 0.05
_LONGEST_RETRY: Final = 5.0
_WAITING_RETRY: Final = 1.0


class Refusal(StrEnum):
    """Why a request was refused; `ErrorInfo.metadata["refusal"]`."""

    CONCURRENCY = "concurrency"
    """As many are in flight as the server can serve well."""
    WAIT = "wait"
    """The budget does not cover the present wait."""
    WAITING_CALLS = "waiting_calls"
    """As many callers wait for events as may."""
    LOOK_UPS = "look_ups"
    """Too many calls have not been admitted yet."""


class Overloaded(Exception):
    """The request was refused before it started."""

    reason = "OVERLOADED"

    def __init__(self, refusal: Refusal, *, retry_after: float) -> None:
        self.refusal = refusal
        self.retry_after = retry_after
        self.metadata = {"refusal": refusal.value}
        super().__init__(_SENTENCES[refusal])


_SENTENCES: Final = {
    Refusal.CONCURRENCY: "the server is at its limit of requests in flight; nothing was started",
    Refusal.WAIT: "the budget does not cover the present wait; nothing was started",
    Refusal.WAITING_CALLS: "the server is at its limit of waiting calls; nothing was started",
    Refusal.LOOK_UPS: "the server is at its limit of calls that are not admitted yet; nothing was started",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionLimits:
    """adaptive: bounds of the limit for normal calls. waiting, look_ups: fixed counts of the other kinds."""

    adaptive: Bounds = field(default_factory=Bounds)
    waiting: int = 1000
    look_ups: int = 64


class Slots:
    """Counts what is in flight."""

    def __init__(self) -> None:
        self.in_flight = 0

    def take(self, limit: int) -> bool:
        """Takes one if fewer than `limit` are taken."""
        if self.in_flight >= limit:
            return False
        self.in_flight += 1
        return True

    def give_back(self) -> None:
        """Gives one back."""
        assert self.in_flight > 0
        self.in_flight -= 1


class AdmissionControl:
    """The door of one server, shared by all its requests."""

    def __init__(
        self,
        limits: AdmissionLimits,
        *,
        clock: Clock = time.monotonic,
        random: Random | None = None,
    ) -> None:
        self.adaptive = GradientLimit(limits.adaptive, clock=clock)
        self.slots: dict[Admission, Slots] = {
            kind: Slots() for kind in Admission if kind is not Admission.EXEMPT
        }
        self.refusals: Counter[tuple[str, Refusal]] = Counter()
        """How many were refused, by method and cause."""
        self._clock = clock
        self._limits = limits
        self._random = random or Random()  # noqa: S311 - spreads retries

    def passage(self, method: str, kind: Admission, budget: Budget) -> "Passage":
        """The way of one request through the door; `arrive` begins it and `leave` must end it."""
        return Passage(self, method=method, kind=kind, budget=budget)

    def take(self, method: str, kind: Admission, budget: Budget) -> Slots | None:
        """A slot of this kind; None for what needs none. Overloaded, and counted, when there is none."""
        refusal = self._refusal(method, kind, budget)
        if refusal is None:
            return self.slots.get(kind)
        self.refusals[method, refusal] += 1
        raise Overloaded(refusal, retry_after=self._retry_after(refusal))

    def _refusal(self, method: str, kind: Admission, budget: Budget) -> Refusal | None:
        match kind:
            case Admission.NORMAL:
                return self._refuse_normal(method, budget)
            case Admission.COUNT:
                return None if self.slots[kind].take(self._limits.waiting) else Refusal.WAITING_CALLS
            case Admission.DEFERRED:
                return None if self.slots[kind].take(self._limits.look_ups) else Refusal.LOOK_UPS
            case Admission.EXEMPT:
                return None
        assert_never(kind)

    def _refuse_normal(self, method: str, budget: Budget) -> Refusal | None:
        slots, latencies = self.slots[Admission.NORMAL], self.adaptive.latencies
        wait = latencies.wait(method, in_flight=slots.in_flight, now=self._clock())
        if wait > 0 and wait + (latencies.unloaded(method) or 0.0) > budget.spendable():
            return Refusal.WAIT
        return None if slots.take(self.adaptive.limit) else Refusal.CONCURRENCY

    def _retry_after(self, refusal: Refusal) -> float:
        """About one turn of those in flight, spread, so that the refused do not come back as one."""
        usual = _WAITING_RETRY if refusal is Refusal.WAITING_CALLS else self.adaptive.usual
        usual = min(max(usual, _SHORTEST_RETRY), _LONGEST_RETRY)
        return usual * self._random.uniform(1.0, 2.0)


class Passage:
    """One request on its way through the door."""

    def __init__(self, control: AdmissionControl, *, method: str, kind: Admission, budget: Budget) -> None:
        self._control = control
        self._method = method
        self._kind = kind
        self._budget = budget
        self._held: Slots | None = None
        self._left = False
        self._sample: Sample | None = None

    def arrive(self) -> None:
        """The request is here. Overloaded when it may not start."""
        if self._kind is Admission.NORMAL:
            self.admit()
        else:
            self._held = self._control.take(self._method, self._kind, self._budget)

    def admit(self) -> None:
        """Lets a deferred request in; does nothing for any other. Overloaded when it may not go on."""
        if self._left:
            raise RuntimeError("the request has ended")
        if self._sample is not None or self._kind not in {Admission.NORMAL, Admission.DEFERRED}:
            return
        slots = self._control.take(self._method, Admission.NORMAL, self._budget)
        self._give_back()
        self._held = slots
        in_flight = slots.in_flight if slots else 0
        self._sample = self._control.adaptive.begin(self._method, in_flight=in_flight)

    def leave(self, ending: Ending | None) -> None:
        """The request has ended, as `ending` says (None: unknown). Only the first call counts."""
        self._left = True
        self._give_back()
        sample, self._sample = self._sample, None
        if sample is not None:
            self._control.adaptive.end(sample, answered=ending is Ending.OK, timed_out=ending in _TIMEOUTS)

    def _give_back(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.give_back()
