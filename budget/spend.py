"""One call under a budget: its floor, its child budget, its timer, and its line in the ledger."""

import asyncio
import math
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Final, TypeGuard

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
    budget: Budget,
    policy: Policy,
    *,
    attempt: int = 1,
    timed_out: TimeoutKind = UpstreamTimeout,
    timed: bool = True,
) -> AbstractAsyncContextManager[Budget, None]:
    """Runs its body under a child of `budget` and records how it ended, exactly once.

    BudgetTooLow before the body starts when too little remains. When the child's time is over the body is
    cancelled; BudgetExhausted says that it was the budget that ended, `timed_out` that it was the policy's
    limit. A cancel from outside always wins and is always re-raised, even if the body swallowed it or made
    something else of it; a CancelledError that nobody asked for becomes SpuriousCancel. A body that ends
    normally, or with a typed error that is no timeout, keeps that, even if it ended late.
    `timed`: False where the body ends itself at the child's deadline, and a timer would only cost.
    """
    return _Spending(budget, policy, attempt, timed_out, timed=timed)


class _Spending:
    """The block of a `spend`: a class, because a generator's frames cost as much as all the rest of it."""

    __slots__ = (
        "_attempt",
        "_budget",
        "_child",
        "_policy",
        "_remaining",
        "_started",
        "_timed",
        "_timed_out",
        "_timer",
        "_watch",
    )

    def __init__(
        self, budget: Budget, policy: Policy, attempt: int, timed_out: TimeoutKind, *, timed: bool
    ) -> None:
        self._budget = budget
        self._policy = policy
        self._attempt = attempt
        self._timed_out = timed_out
        self._timed = timed

    async def __aenter__(self) -> Budget:
        budget, policy = self._budget, self._policy
        remaining = budget.spendable()
        child = budget.child(math.inf if policy.observed else policy.limit)
        if too_low(policy, remaining) or child.initial <= 0:
            raise _refusal(budget, policy, remaining=remaining, attempt=self._attempt)
        self._child = child
        self._remaining = remaining
        self._started = budget.clock()
        self._watch = CancelWatch.here()
        self._timer = self._start_timer(child) if self._timed else None
        return child

    async def __aexit__(
        self, _kind: type[BaseException] | None, raised: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.stop()
        cancelled = self._watch.cancelled
        if raised is None:
            self._end_of_body(cancelled=cancelled)
            return
        expired = self._timer is not None and self._timer.expired
        ending = self._end_with(raised, cancelled=cancelled, expired=expired)
        try:
            if ending is not raised:
                raise ending from raised
        finally:
            # The error's traceback holds this frame: together they would wait for a full collection.
            del ending, raised

    def _start_timer(self, child: Budget) -> Timer | None:
        if child.unbounded:
            return None
        # Above 0, because a timer of 0 can swallow a pending cancel (cpython#134471).
        return Timer.start(self._watch.task, max(child.remaining(), 1e-6))

    def _end_of_body(self, *, cancelled: bool) -> None:
        if not cancelled:
            self._record(Outcome.OK)
            return
        self._record(Outcome.CANCELLED, COMPLETED)
        raise asyncio.CancelledError

    def _end_with(self, error: BaseException, *, cancelled: bool, expired: bool) -> BaseException:
        """Records the end that `error` means and returns what to raise: `error` itself or its typed form."""
        if isinstance(error, GeneratorExit):
            self._record(Outcome.CANCELLED)
            return error
        if isinstance(error, asyncio.CancelledError) and cancelled:
            self._record(Outcome.CANCELLED)
            return error
        if cancelled:
            self._record(Outcome.CANCELLED, reason_of(error) if isinstance(error, BudgetError) else "")
            return asyncio.CancelledError()
        decided = isinstance(error, BudgetError) and not isinstance(error, DependencyTimeout)
        if (expired and not decided) or self._reports_timeout(error):
            return self._out_of_time(error)
        if isinstance(error, BudgetExhausted):
            return self._exhausted(error)
        if isinstance(error, asyncio.CancelledError):
            error = SpuriousCancel(dependency=self._policy.dependency, method=self._policy.method)
        self._record(Outcome.ERROR, reason_of(error))
        return error

    def _record(self, outcome: Outcome, reason: str = "") -> None:
        policy = self._policy
        took = self._budget.clock() - self._started
        over = self._remaining < policy.floor or took > policy.limit
        self._budget.ledger.record(
            Spend(
                dependency=policy.dependency,
                method=policy.method,
                remaining=self._remaining,
                limit=policy.limit,
                took=took,
                outcome=outcome,
                attempt=self._attempt,
                reason=reason,
                would_cut=over and policy.observed,
                started=self._started,
            )
        )

    @property
    def _called(self) -> dict[str, str]:
        return {"dependency": self._policy.dependency, "method": self._policy.method}

    def _reports_timeout(self, error: BaseException) -> TypeGuard[DependencyTimeout]:
        called = (self._policy.dependency, self._policy.method)
        return isinstance(error, DependencyTimeout) and called == (error.dependency, error.method)

    def _out_of_time(self, error: BaseException) -> BudgetError:
        if self._reports_timeout(error):
            timeout = error
        else:
            timeout = self._timed_out(**self._called, limit=self._policy.limit)
        if self._budget_is_shorter():
            return self._exhausted(timeout, timeout.cause)
        self._record(Outcome.TIMEOUT, timeout.cause)
        return timeout

    def _exhausted(self, error: BudgetError, cause: str = "") -> BudgetExhausted:
        self._record(Outcome.EXHAUSTED, cause)
        if isinstance(error, BudgetExhausted) and error.dependency:
            return error
        told = error if isinstance(error, UpstreamTimeout) else UpstreamTimeout()
        return BudgetExhausted(
            **self._called, upstream_reason=told.upstream_reason, upstream_metadata=told.upstream_metadata
        )

    def _budget_is_shorter(self) -> bool:
        # userver's rule: a call that was given all that remained ran out of budget, not into its limit.
        given_all = self._policy.observed or self._remaining <= self._policy.limit
        return given_all or self._budget.spendable() < WIRE_STEP


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
