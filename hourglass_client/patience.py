"""For how long a call goes on, and what follows when it fails. Pure but for the clock and the dice."""

import math
import time
from dataclasses import dataclass, field
from typing import Any, Final

from grpc import StatusCode

from budget.core import Budget, Clock
from budget.errors import BudgetExhausted
from budget.policy import Policy
from budget.retry import Backoff, Retries, Skipped, retry_metadata
from hourglass.jobs.v1.job_pb2 import Job, JobState
from hourglass_client.errors import DeadlineExceeded, HourglassError, time_is_over
from hourglass_client.requests import LONGEST_WAIT, Call

Metadata = tuple[tuple[str, str], ...]

FLOOR: Final = 0.05
"""Seconds. Nothing is tried in less."""
MOST_TRIES: Final = 10
RESUME: Final = "RESUME"
_NOTHING_CHANGED: Final = "DATABASE_CONFLICT"
_ENDS: Final = frozenset(
    {
        JobState.JOB_STATE_SUCCEEDED,
        JobState.JOB_STATE_FAILED,
        JobState.JOB_STATE_CANCELLED,
        JobState.JOB_STATE_EXPIRED,
    }
)


def _retries() -> Retries:
    return Retries(backoff=Backoff(base=0.1, cap=2.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How a client bears failures. Shared by all its calls, because the token bucket is.

    retries: of calls that may be repeated (see budget.retry).
    patience: seconds for which `watch` and `wait` ask on while nobody answers.
    """

    retries: Retries = field(default_factory=_retries)
    patience: float = 30.0
    clock: Clock = time.monotonic


class Tries:
    """One unary call: its budget, its tries, its token for each try after the first."""

    def __init__(self, call: Call[Any, Any], timeout: float | None, terms: Terms) -> None:
        limit = call.limit if timeout is None else timeout
        self._budget = _budget(limit, terms)
        self._retries = terms.retries
        self._attempt = 1
        self._key = call.key
        self._policy = Policy(
            dependency="hourglass",
            method=call.method,
            limit=limit,
            floor=min(FLOOR, limit),
            attempts=MOST_TRIES if call.repeatable else 1,
        )

    @property
    def timeout(self) -> float | None:
        """Seconds for the next try: what is left. Raises DeadlineExceeded when nothing is."""
        return _wire_timeout(self._budget)

    @property
    def metadata(self) -> Metadata:
        """What the next try says of itself."""
        return retry_metadata(self._attempt)

    def succeeded(self) -> None:
        """The call was answered."""
        self._retries.bucket.succeeded()

    def after(self, error: HourglassError) -> float:
        """Seconds to wait before another try; raises the error when there is none."""
        error.key = self._key
        if self._attempt >= self._policy.attempts or not _may_be_repeated(error):
            raise error
        decision = self._retries.decide(
            self._attempt, pushback=error.retry_after, budget=self._budget, policy=self._policy
        )
        if isinstance(decision, Skipped):
            raise error
        self._attempt += 1
        return decision


class Patience:
    """A long read: it is gone on with through outages, drains and restarts, as long as somebody answers
    again within the terms' patience. It takes no tokens: it changes nothing, and its server asks for it."""

    def __init__(self, timeout: float | None, terms: Terms) -> None:
        self._budget = Budget.for_stream(incoming=None) if timeout is None else _budget(timeout, terms)
        self._terms = terms
        self._failures = 0
        self._last_sign = terms.clock()

    def timeout(self, limit: float = math.inf) -> float | None:
        """Seconds for the next try, at most `limit`; None: without an end. Raises DeadlineExceeded."""
        return _wire_timeout(self._budget.child(limit))

    @property
    def nearly_over(self) -> bool:
        """Whether too little is left for another try."""
        return self._budget.spendable() < FLOOR

    def sign_of_life(self) -> None:
        """Somebody answers."""
        self._failures = 0
        self._last_sign = self._terms.clock()

    def pause(self) -> float:
        """Seconds before the next try, with full jitter."""
        self._failures += 1
        return self._terms.retries.backoff.wait(self._failures, self._terms.retries.random)

    def after(self, error: HourglassError) -> float:
        """Seconds to wait before the next try. Raises the error when it is none that passes or has lasted for
        too long, and DeadlineExceeded when the time is over."""
        if not _may_be_repeated(error) or self._is_used_up(error):
            raise error
        pause = self.pause() if error.retry_after is None else error.retry_after
        if math.isinf(pause):
            raise error
        if self._budget.spendable() < pause + FLOOR:
            raise time_is_over(error) from error
        return pause

    def _is_used_up(self, error: HourglassError) -> bool:
        if error.reason == RESUME:
            self._last_sign = self._terms.clock()
            return False
        return self._terms.clock() - self._last_sign > self._terms.patience


class Waiting:
    """A wait for the end of a job: several WaitJob where one is too short."""

    def __init__(self, timeout: float | None, terms: Terms) -> None:
        self._job: Job | None = None
        self._patience = Patience(timeout, terms)

    @property
    def answer(self) -> Job:
        """The job, as it was told last."""
        assert self._job is not None, "a wait without an answer raises"
        return self._job

    @property
    def timeout(self) -> float | None:
        """Seconds for the next WaitJob. Raises DeadlineExceeded when nothing is left."""
        return self._patience.timeout(LONGEST_WAIT)

    def answered(self, job: Job) -> float | None:
        """Seconds before the next question; None: this is the answer."""
        self._job = job
        self._patience.sign_of_life()
        return None if job.state in _ENDS or self._patience.nearly_over else self._patience.pause()

    def failed(self, error: HourglassError) -> float | None:
        """The same after an error. Raises it when there is no going on, and nothing known to answer."""
        if isinstance(error, DeadlineExceeded) and not self._patience.nearly_over:
            return self._patience.pause()  # the time of one question, not that of the wait
        try:
            return self._patience.after(error)
        except DeadlineExceeded:
            if self._job is None:
                raise
            return None


def _budget(timeout: float, terms: Terms) -> Budget:
    if not 0 < timeout < math.inf:
        raise ValueError(f"timeout: {timeout!r}, wanted seconds above 0, or None")
    return Budget.for_work(timeout, clock=terms.clock)


def _wire_timeout(budget: Budget) -> float | None:
    try:
        return budget.wire_timeout()
    except BudgetExhausted:
        raise time_is_over() from None


def _may_be_repeated(error: HourglassError) -> bool:
    """UNAVAILABLE, whatever the server wants to be asked for again, and a lost race that changed nothing."""
    return (
        error.code is StatusCode.UNAVAILABLE
        or error.retry_after is not None
        or error.reason == _NOTHING_CHANGED
    )
