"""One call under a budget: its floor, its child budget, its timer, and its line in the ledger."""

import asyncio
import math
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self, TypeGuard

from budget.cancel import CancelWatch
from budget.core import Budget
from budget.errors import (
    BudgetError,
    BudgetExhausted,
    BudgetTooLow,
    DependencyTimeout,
    SpuriousCancel,
    UpstreamTimeout,
)
from budget.ledger import Outcome, Spend
from budget.policy import Policy
from budget.timer import Timer
from budget.wire import WIRE_STEP

COMPLETED: Final = "COMPLETED"
"""The ledger's reason for a call that was cancelled and ended well all the same, such as a commit."""

TimeoutKind = Callable[..., DependencyTimeout]
"""Makes the error of a used-up limit from `dependency`, `method` and `limit`: a type, or a choice of one."""


def spend(
    budget: Budget, policy: Policy, *, attempt: int = 1, timed_out: TimeoutKind = UpstreamTimeout
) -> AbstractAsyncContextManager[Budget, None]:
    """Runs its body under a child of `budget` and records how it ended, exactly once.

    BudgetTooLow before the body starts when too little remains. When the child's time is over the body is
    cancelled; BudgetExhausted says that it was the budget that ended, `timed_out` that it was the policy's
    limit. A cancel from outside always wins and is always re-raised, even if the body swallowed it or made
    something else of it; a CancelledError that nobody asked for becomes SpuriousCancel. A body that ends
    normally, or with a typed error that is no timeout, keeps that, even if it ended late.
    """
    return _Spending(budget, policy, attempt, timed_out)


class _Spending:
    """The block of a `spend`: a class, because a generator's frames cost as much as all the rest of it."""

    __slots__ = ("_attempt", "_begun", "_budget", "_policy", "_timed_out", "_timer", "_watch")

    def __init__(self, budget: Budget, policy: Policy, attempt: int, timed_out: TimeoutKind) -> None:
        self._budget = budget
        self._policy = policy
        self._attempt = attempt
        self._timed_out = timed_out

    async def __aenter__(self) -> Budget:
        self._begun = Begun.now(self._budget, self._policy, attempt=self._attempt)
        self._watch = CancelWatch.here()
        self._timer = Timer.start(self._watch.task, self._begun.timer())
        return self._begun.child

    async def __aexit__(
        self, _kind: type[BaseException] | None, raised: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._timer.stop()
        cancelled = self._watch.cancelled
        if raised is None:
            self._end_of_body(cancelled=cancelled)
            return
        ending = self._begun.end_with(
            raised, cancelled=cancelled, expired=self._timer.expired, timed_out=self._timed_out
        )
        try:
            if ending is not raised:
                raise ending from raised
        finally:
            # The error's traceback holds this frame: together they would wait for a full collection.
            del ending, raised

    def _end_of_body(self, *, cancelled: bool) -> None:
        if not cancelled:
            self._begun.end(Outcome.OK)
            return
        self._begun.end(Outcome.CANCELLED, COMPLETED)
        raise asyncio.CancelledError


def skip(budget: Budget, policy: Policy) -> bool:
    """True, and recorded, when an optional call should be left out because too little remains."""
    remaining = budget.spendable()
    if not policy.optional or not too_low(policy, remaining):
        return False
    record_untried(budget, policy, Outcome.SKIPPED_LOW, remaining=remaining)
    return True


def too_low(policy: Policy, spendable: float) -> bool:
    """Whether `spendable` seconds are too few to try; a policy that observes tries while there is any."""
    return spendable < WIRE_STEP or (spendable < policy.floor and not policy.observed)


@dataclass(slots=True, kw_only=True)
class Begun:
    """A spend between its start and its end, for those who cannot wrap it around a block (see `spend`)."""

    budget: Budget
    policy: Policy
    attempt: int
    child: Budget
    started: float
    remaining: float
    _ended: bool = field(default=False, init=False)

    @classmethod
    def now(cls, budget: Budget, policy: Policy, *, attempt: int = 1) -> Self:
        """Starts one; BudgetTooLow, and recorded, when too little remains."""
        remaining = budget.spendable()
        child = budget.child(math.inf if policy.observed else policy.limit)
        if too_low(policy, remaining) or child.initial <= 0:
            raise _refusal(budget, policy, remaining=remaining, attempt=attempt)
        return cls(
            budget=budget,
            policy=policy,
            attempt=attempt,
            child=child,
            started=budget.clock(),
            remaining=remaining,
        )

    def timer(self) -> float | None:
        """Seconds for a timer: above 0, because 0 can swallow a pending cancel (cpython#134471)."""
        return None if self.child.unbounded else max(self.child.remaining(), 1e-6)

    def end(self, outcome: Outcome, reason: str = "") -> None:
        """Records the spend; only the first end counts."""
        if self._ended:
            return
        self._ended = True
        took = self.budget.clock() - self.started
        over = self.remaining < self.policy.floor or took > self.policy.limit
        self.budget.ledger.record(
            Spend(
                dependency=self.policy.dependency,
                method=self.policy.method,
                remaining=self.remaining,
                limit=self.policy.limit,
                took=took,
                outcome=outcome,
                attempt=self.attempt,
                reason=reason,
                would_cut=self.policy.observed and over,
                started=self.started,
            )
        )

    def end_with(
        self, error: BaseException, *, cancelled: bool, expired: bool, timed_out: TimeoutKind
    ) -> BaseException:
        """Records the end that `error` means and returns what to raise: `error` itself or its typed form."""
        if isinstance(error, GeneratorExit):
            self.end(Outcome.CANCELLED)
            return error
        if isinstance(error, asyncio.CancelledError) and cancelled:
            self.end(Outcome.CANCELLED)
            return error
        if cancelled:
            self.end(Outcome.CANCELLED, reason_of(error) if isinstance(error, BudgetError) else "")
            return asyncio.CancelledError()
        decided = isinstance(error, BudgetError) and not isinstance(error, DependencyTimeout)
        if (expired and not decided) or self._reports_timeout(error):
            return self._out_of_time(error, timed_out)
        if isinstance(error, BudgetExhausted):
            return self._exhausted(error)
        if isinstance(error, asyncio.CancelledError):
            error = SpuriousCancel(dependency=self.policy.dependency, method=self.policy.method)
        self.end(Outcome.ERROR, reason_of(error))
        return error

    @property
    def _called(self) -> dict[str, str]:
        return {"dependency": self.policy.dependency, "method": self.policy.method}

    def _reports_timeout(self, error: BaseException) -> TypeGuard[DependencyTimeout]:
        called = (self.policy.dependency, self.policy.method)
        return isinstance(error, DependencyTimeout) and called == (error.dependency, error.method)

    def _out_of_time(self, error: BaseException, timed_out: TimeoutKind) -> BudgetError:
        if self._reports_timeout(error):
            timeout = error
        else:
            timeout = timed_out(**self._called, limit=self.policy.limit)
        if self._budget_is_shorter():
            return self._exhausted(timeout, timeout.cause)
        self.end(Outcome.TIMEOUT, timeout.cause)
        return timeout

    def _exhausted(self, error: BudgetError, cause: str = "") -> BudgetExhausted:
        self.end(Outcome.EXHAUSTED, cause)
        if isinstance(error, BudgetExhausted) and error.dependency:
            return error
        told = error if isinstance(error, UpstreamTimeout) else UpstreamTimeout()
        return BudgetExhausted(
            **self._called, upstream_reason=told.upstream_reason, upstream_metadata=told.upstream_metadata
        )

    def _budget_is_shorter(self) -> bool:
        # userver's rule: a call that was given all that remained ran out of budget, not into its limit.
        given_all = self.policy.observed or self.remaining <= self.policy.limit
        return given_all or self.budget.spendable() < WIRE_STEP


def reason_of(error: BaseException) -> str:
    """A short name for the ledger: the error's cause, its reason, or its type."""
    named = (getattr(error, attribute, None) for attribute in ("cause", "reason"))
    return next((name for name in named if isinstance(name, str) and name), type(error).__name__)


def record_untried(
    budget: Budget, policy: Policy, outcome: Outcome, *, remaining: float, attempt: int = 1, reason: str = ""
) -> None:
    """Writes down a call that was decided against."""
    budget.ledger.record(
        Spend(
            dependency=policy.dependency,
            method=policy.method,
            remaining=remaining,
            limit=policy.limit,
            took=0.0,
            outcome=outcome,
            attempt=attempt,
            reason=reason,
            started=budget.clock(),
        )
    )


def _refusal(budget: Budget, policy: Policy, *, remaining: float, attempt: int) -> BudgetTooLow:
    outcome = Outcome.SKIPPED_LOW if policy.optional else Outcome.REFUSED_LOW
    record_untried(budget, policy, outcome, remaining=remaining, attempt=attempt)
    return BudgetTooLow(
        dependency=policy.dependency,
        method=policy.method,
        remaining=remaining,
        floor=policy.floor,
        limit=policy.limit,
    )
