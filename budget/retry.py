"""Whether to try again, and after which wait.

A retry helps one caller and harms a dependency that is already in trouble, so each has to be paid for: a
token bucket for each dependency (gRFC A6's throttling, Finagle's RetryBudget), full jitter (Brooker,
"Exponential backoff and jitter", AWS 2015), the dependency's own pushback (gRFC A6), no retry of what is
itself a retry (Kitex: chain stop), and no retry that could not finish in the budget (userver, Kitex: DDL
stop).
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count
from random import Random
from typing import Final, TypeVar

from budget.cancel import CancelWatch
from budget.core import Budget
from budget.errors import DatabaseConflict, UpstreamError
from budget.ledger import Outcome
from budget.policy import Policy
from budget.spend import record_untried, too_low

Result = TypeVar("Result")

RETRY_HEADER: Final = "hourglass-retry-attempt"
"""Metadata of a call that is a retry, or part of one: which try it is, counted from 1 for the first retry."""

LONGEST_EXPONENT: Final = 30


class Skipped(StrEnum):
    """Why another try was possible and yet not made; stands in the ledger."""

    IS_A_RETRY = "IS_A_RETRY"
    """The request we serve is itself a retry; retries of retries multiply."""
    PUSHBACK = "PUSHBACK"
    """The dependency asked not to be asked again."""
    BUDGET = "BUDGET"
    """What remains does not cover the wait and the floor of another try."""
    NO_TOKEN = "NO_TOKEN"  # noqa: S105
    """Too many calls of this dependency were retried lately."""


class TokenBucket:
    """The retries that one dependency may still cost: starts full unless told otherwise, each success adds a
    little, a retry takes 1."""

    def __init__(self, *, capacity: float = 10.0, refill: float = 0.2, tokens: float | None = None) -> None:
        self._capacity = capacity
        self._refill = refill
        self._tokens = capacity if tokens is None else tokens

    @property
    def tokens(self) -> float:
        """What is in it."""
        return self._tokens

    def succeeded(self) -> None:
        """A call went well."""
        self._tokens = min(self._capacity, self._tokens + self._refill)

    def take(self) -> bool:
        """Takes one token if there is one."""
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Full jitter: a wait anywhere between 0 and min(cap, base * 2^n). Seconds."""

    base: float = 0.025
    cap: float = 0.250

    def wait(self, attempt: int, random: Random) -> float:
        """The wait after try number `attempt`, counted from 1."""
        ceiling = min(self.cap, self.base * 2 ** min(attempt - 1, LONGEST_EXPONENT))
        return random.uniform(0.0, ceiling)


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """One try of a call, for whoever makes it. `attempt` counts from 1."""

    attempt: int
    metadata: tuple[tuple[str, str], ...] = ()


def is_transient(error: Exception) -> bool:
    """Errors that a call without side effects may be tried again for: UNAVAILABLE, whatever came with a
    pushback, and a lost race in the database. A used-up limit is not one: it has cost its time already."""
    if isinstance(error, UpstreamError):
        return error.code == "UNAVAILABLE" or error.pushback is not None
    return isinstance(error, DatabaseConflict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How calls of one dependency are retried. Shared by all requests of a process, because the bucket is.

    `random` and `sleep` are given by whoever wires the process.
    """

    bucket: TokenBucket = field(default_factory=TokenBucket)
    backoff: Backoff = Backoff()
    random: Random = field(default_factory=Random)
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def run(
        self,
        call: Callable[[Try], Awaitable[Result]],
        *,
        budget: Budget,
        policy: Policy,
        incoming_attempt: int = 0,
        retryable: Callable[[Exception], bool] = is_transient,
    ) -> Result:
        """Makes `call` up to `policy.attempts` times; raises the last error.

        call: makes one try as a spend of `budget`, with the attempt's number and metadata.
        incoming_attempt: the retry header of the request that we serve; 0 = it is no retry.
        """
        for attempt in count(1):
            watch = CancelWatch.here()
            try:
                result = await call(Try(attempt=attempt, metadata=retry_metadata(attempt, incoming_attempt)))
            except Exception as error:
                watch.raise_if_cancelled()
                if attempt >= policy.attempts or not retryable(error):
                    raise
                decision = self.decide(
                    attempt,
                    pushback=getattr(error, "pushback", None),
                    budget=budget,
                    policy=policy,
                    incoming_attempt=incoming_attempt,
                )
                if isinstance(decision, Skipped):
                    _record(decision, budget, policy, attempt + 1)
                    raise
            else:
                self.bucket.succeeded()
                return result
            await self.sleep(decision)
        raise AssertionError("counting does not end")

    def decide(
        self,
        attempt: int,
        *,
        pushback: float | None,
        budget: Budget,
        policy: Policy,
        incoming_attempt: int = 0,
    ) -> float | Skipped:
        """Seconds to wait after the failed try number `attempt`, or why there is no other one: for those
        whose calls `run` cannot make. Takes a token, asked for last.

        pushback: seconds that the dependency asked for; `math.inf` = never; None = it did not say.
        """
        if incoming_attempt > 0:
            return Skipped.IS_A_RETRY
        wait = self.backoff.wait(attempt, self.random) if pushback is None else float(pushback)
        if math.isinf(wait):
            return Skipped.PUSHBACK
        if too_low(policy, budget.spendable() - wait):
            return Skipped.BUDGET
        return wait if self.bucket.take() else Skipped.NO_TOKEN


def incoming_attempt(value: str | None) -> int:
    """Reads the retry header of a request; anything but a small positive number is 0."""
    return int(value) if value is not None and value.isascii() and value.isdecimal() and len(value) < 4 else 0


def retry_metadata(attempt: int, incoming: int = 0) -> tuple[tuple[str, str], ...]:
    """What try number `attempt` says of itself; `incoming`: the retry header of the request that we serve."""
    number = max(attempt - 1, incoming)
    return ((RETRY_HEADER, str(number)),) if number else ()


def _record(skipped: Skipped, budget: Budget, policy: Policy, attempt: int) -> None:
    record_untried(
        budget,
        policy,
        Outcome.RETRY_SKIPPED,
        remaining=budget.spendable(),
        attempt=attempt,
        reason=skipped,
    )
