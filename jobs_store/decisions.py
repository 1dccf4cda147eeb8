"""What becomes of a job whose attempt ended without a result: pure, shared by runs and the reaper.

The rules are those of docs/state-machine.md. Back-off is exponential with full jitter (Brooker, "Exponential
Backoff And Jitter", AWS Architecture Blog, 2015).
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, assert_never

from jobs_store.attempts import AttemptEnd
from jobs_store.rate_card import RateCard, Usage
from jobs_store.states import AttemptOutcome, Cause, ErrorClass, UnknownOutcomePolicy

MAX_CRASHES: Final = 10
"""Claims in a row that end before the send by a crash or a lost lease, until the payload counts as poison."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a job was created with, as far as it decides about retries. Amounts in dollars."""

    max_attempts: int
    unknown_outcome_policy: UnknownOutcomePolicy
    attempt_worst_case: Decimal
    provider_cost_limit: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What has happened to a job before the attempt that is decided about. Amounts in dollars.

    attempt_number: of the attempt that is decided about; it grows with every claim, counted or not.
    """

    counted_attempts: int
    crash_count: int
    known_cost: Decimal
    unknown_cost: Decimal
    attempt_number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryTiming:
    """Durations in seconds, from configuration."""

    backoff_base: float = 0.5
    backoff_cap: float = 60.0
    platform_park: float = 60.0
    hold_timeout: float = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fail:
    """The job is FAILED."""

    cause: Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class Park:
    """The lane is closed for all workers for `duration` seconds."""

    duration: float
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeue:
    """The job waits `delay` seconds and is claimed again. `crashed`: it counts towards MAX_CRASHES."""

    cause: Cause
    delay: float = 0.0
    crashed: bool = False
    park: Park | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """The job waits until somebody decides, `timeout` seconds at most."""

    timeout: float
    cause: Cause = Cause.UNKNOWN_OUTCOME


Decision = Fail | Requeue | Hold
Jitter = Callable[[float], float]
"""Answers a random number of seconds between 0 and its argument."""


def decide(
    end: AttemptEnd,
    *,
    terms: Terms,
    tally: Tally,
    timing: RetryTiming,
    jitter: Jitter,
    crashed: bool = False,
    sent: bool = True,
    retry_after: float | None = None,
) -> Decision:
    """What becomes of the job.

    crashed: the attempt took down whoever ran it.
    sent: False when it failed and is proven not to have been sent.
    retry_after: the provider's wish, in seconds.
    """
    match end.outcome:
        case AttemptOutcome.NOT_SENT:
            return _after_not_sent(tally, crashed=crashed)
        case AttemptOutcome.UNKNOWN:
            return _after_unknown(end, terms=terms, tally=tally, timing=timing, jitter=jitter)
        case AttemptOutcome.FAILED:
            return _after_failure(
                end,
                terms=terms,
                tally=tally,
                timing=timing,
                jitter=jitter,
                sent=sent,
                retry_after=retry_after,
            )
        case AttemptOutcome.SUCCEEDED | AttemptOutcome.CANCELLED:
            raise ValueError(f"{end.outcome} leaves nothing to decide")
        case _:
            assert_never(end.outcome)


def charge_of_cancel(card: RateCard, *, input_estimate: int, delivered_tokens: int) -> Decimal:
    """What a cancelled job is charged: nothing before the first token, else the input and what was delivered.

    The input is an estimate, because a provider reports usage at the end only; the reservation caps it all.
    """
    if delivered_tokens == 0:
        return Decimal(0)
    return card.amount(Usage(input_tokens=input_estimate, output_tokens=delivered_tokens))


def backoff(failures: int, timing: RetryTiming, jitter: Jitter) -> float:
    """Seconds until the next try after this many failures, the last one included."""
    return jitter(min(timing.backoff_cap, timing.backoff_base * 2.0 ** min(failures, 32)))


def _after_not_sent(tally: Tally, *, crashed: bool) -> Decision:
    if not crashed:
        return Requeue(cause=Cause.RELEASED)
    if tally.crash_count + 1 >= MAX_CRASHES:
        return Fail(cause=Cause.POISONED)
    return Requeue(cause=Cause.CRASHED_BEFORE_SEND, crashed=True)


def _after_unknown(
    end: AttemptEnd, *, terms: Terms, tally: Tally, timing: RetryTiming, jitter: Jitter
) -> Decision:
    match terms.unknown_outcome_policy:
        case UnknownOutcomePolicy.FAIL:
            return Fail(cause=Cause.UNKNOWN_OUTCOME)
        case UnknownOutcomePolicy.HOLD:
            return Hold(timeout=timing.hold_timeout)
        case UnknownOutcomePolicy.RETRY:
            return _another_attempt(
                end, Cause.UNKNOWN_OUTCOME, terms=terms, tally=tally, timing=timing, jitter=jitter
            )
        case _:
            assert_never(terms.unknown_outcome_policy)


def _after_failure(
    end: AttemptEnd,
    *,
    terms: Terms,
    tally: Tally,
    timing: RetryTiming,
    jitter: Jitter,
    sent: bool,
    retry_after: float | None,
) -> Decision:
    match end.error_class:
        case ErrorClass.PERMANENT:
            return Fail(cause=Cause.PERMANENT_ERROR)
        case ErrorClass.PLATFORM:
            park = Park(duration=timing.platform_park, cause=end.cause)
            return Requeue(cause=Cause.LANE_PARKED, park=park)
        case _ if retry_after is not None and not end.counted:
            return Requeue(cause=Cause.LANE_PARKED, park=Park(duration=retry_after, cause=end.cause))
        case _ if not end.counted:
            # Nothing but the queue timeout bounds these tries, so the pauses grow with every claim.
            cause = Cause.TRANSIENT_ERROR if sent else Cause.NOT_SENT
            return Requeue(cause=cause, delay=backoff(tally.attempt_number, timing, jitter))
        case _:
            return _another_attempt(
                end,
                Cause.TRANSIENT_ERROR,
                terms=terms,
                tally=tally,
                timing=timing,
                jitter=jitter,
                at_least=retry_after or 0.0,
            )


def _another_attempt(
    end: AttemptEnd,
    cause: Cause,
    *,
    terms: Terms,
    tally: Tally,
    timing: RetryTiming,
    jitter: Jitter,
    at_least: float = 0.0,
) -> Decision:
    counted = tally.counted_attempts + (1 if end.counted else 0)
    if counted >= terms.max_attempts:
        return Fail(cause=Cause.MAX_ATTEMPTS)
    spent = tally.known_cost + tally.unknown_cost + end.cost.amount + end.cost.worst_case
    if spent + terms.attempt_worst_case > terms.provider_cost_limit:
        return Fail(cause=Cause.PROVIDER_COST_LIMIT)
    return Requeue(cause=cause, delay=max(at_least, backoff(counted, timing, jitter)))
