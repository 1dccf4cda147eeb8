"""The budget: one monotonic instant, made once for a request, handed on, never extended.

Deadline propagation as in userver and in gRPC for Java and Go; Python's gRPC hands no deadline on by itself.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Self

from budget.errors import BudgetExhausted
from budget.ledger import Ledger
from budget.wire import WIRE_STEP, floor_to_wire_grid

Clock = Callable[[], float]
"""Monotonic seconds. The wall clock may step, so it never decides."""

RESERVE_SHARE: Final = 0.1
SHORTEST_RESERVE: Final = 0.015
LONGEST_RESERVE: Final = 0.250


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Budget:
    """All the time there is. Every function that does I/O takes one.

    deadline: instant of `clock` at which it is over; `math.inf` only for streams.
    reserve: seconds kept back for answering. C core answers for us at the deadline, without details, so the
        answer has to leave before it (Envoy's grpc_timeout_header_offset serves the same end).
    initial: seconds there were at the start.
    ledger: where every spend is written; shared by all children.
    """

    deadline: float
    reserve: float
    initial: float
    ledger: Ledger = field(repr=False)
    clock: Clock = field(repr=False)

    @classmethod
    def root(
        cls,
        *,
        incoming: float | None,
        default: float | None,
        cap: float | None,
        clock: Clock = time.monotonic,
    ) -> Self:
        """The budget of a request that has `incoming` seconds left (None: the caller set no deadline).

        The shorter of `incoming` and `cap` wins; without `incoming`, `default` (or else the cap) holds.
        ValueError when nothing bounds it: only streams may live without an end, see `for_stream`.
        """
        wanted = incoming if incoming is not None else default
        bounds = [bound for bound in (wanted, cap) if bound is not None]
        if not bounds or math.isinf(min(bounds)):
            raise ValueError("a request needs an end: an incoming deadline, a default or a cap")
        return cls._starting_now(min(bounds), clock=clock)

    @classmethod
    def for_stream(cls, *, incoming: float | None, clock: Clock = time.monotonic) -> Self:
        """The budget of a stream that lasts as long as its caller wants; each read inside takes a `child`."""
        return cls._starting_now(math.inf if incoming is None else incoming, clock=clock)

    @classmethod
    def for_work(cls, limit: float, *, clock: Clock = time.monotonic) -> Self:
        """The budget of background work or a clean-up: nobody waits for an answer, nothing is reserved."""
        if not 0 < limit < math.inf:
            raise ValueError(f"limit: {limit!r}, wanted seconds above 0")
        return cls(deadline=clock() + limit, reserve=0.0, initial=limit, ledger=Ledger(), clock=clock)

    @classmethod
    def _starting_now(cls, total: float, *, clock: Clock) -> Self:
        total = max(0.0, total)
        return cls(
            deadline=clock() + total, reserve=_reserve_of(total), initial=total, ledger=Ledger(), clock=clock
        )

    @property
    def unbounded(self) -> bool:
        """True for a stream without an end."""
        return math.isinf(self.deadline)

    def remaining(self) -> float:
        """Seconds to the deadline, never negative."""
        return max(0.0, self.deadline - self.clock())

    def spendable(self) -> float:
        """Seconds that may be spent before answering has to begin, never negative."""
        return max(0.0, self.deadline - self.reserve - self.clock())

    def child(self, limit: float = math.inf) -> "Budget":
        """At most `limit` seconds of this budget, floored to the wire's grid; 0 when nothing is left.

        It shares the ledger, has no reserve of its own, and its end never lies behind this budget's.
        """
        now, end = self.clock(), self.deadline - self.reserve
        room = min(limit, end - now)
        if not math.isinf(room):
            room = floor_to_wire_grid(room)
        return Budget(
            deadline=min(now + room, end), reserve=0.0, initial=room, ledger=self.ledger, clock=self.clock
        )

    def wire_timeout(self) -> float | None:
        """What to give gRPC as `timeout=`, seconds above 0; None for a stream without an end.

        Chosen so that the callee, after C core's rounding, never sees a later end than this budget has.
        BudgetExhausted when nothing is left: a timeout of 0 would be sent, and might succeed.
        """
        if self.unbounded:
            return None
        timeout = floor_to_wire_grid(self.spendable()) - WIRE_STEP
        if timeout <= 0:
            raise BudgetExhausted
        return timeout


def _reserve_of(total: float) -> float:
    return min(max(RESERVE_SHARE * total, SHORTEST_RESERVE), LONGEST_RESERVE)
