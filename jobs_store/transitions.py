"""The transition table: every change of a job's state, with its cause and who makes it.

docs/state-machine.md is drawn from this table and checked against it; the property test of the store knows
no other changes.
"""

from dataclasses import dataclass
from typing import Final

from jobs_store.states import Actor, Cause, JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One arrow. `source` is None for the create."""

    source: JobState | None
    target: JobState
    cause: Cause
    actor: Actor


def _arrows(
    source: JobState | None, target: JobState, actor: Actor, *causes: Cause
) -> tuple[Transition, ...]:
    return tuple(Transition(source=source, target=target, cause=cause, actor=actor) for cause in causes)


TRANSITIONS: Final[tuple[Transition, ...]] = (
    *_arrows(None, JobState.QUEUED, Actor.CALLER, Cause.CREATED),
    *_arrows(JobState.QUEUED, JobState.RUNNING, Actor.CLAIM, Cause.CLAIMED),
    *_arrows(JobState.QUEUED, JobState.CANCELLED, Actor.CALLER, Cause.USER_CANCEL),
    *_arrows(JobState.QUEUED, JobState.EXPIRED, Actor.REAPER, Cause.QUEUE_TIMEOUT),
    *_arrows(JobState.RUNNING, JobState.SUCCEEDED, Actor.RUN, Cause.ACCEPTED),
    *_arrows(
        JobState.RUNNING,
        JobState.QUEUED,
        Actor.RUN,
        Cause.RELEASED,
        Cause.NOT_SENT,
        Cause.TRANSIENT_ERROR,
        Cause.LANE_PARKED,
        Cause.UNKNOWN_OUTCOME,
        Cause.CRASHED_BEFORE_SEND,
    ),
    *_arrows(JobState.RUNNING, JobState.HELD, Actor.RUN, Cause.UNKNOWN_OUTCOME),
    *_arrows(
        JobState.RUNNING,
        JobState.FAILED,
        Actor.RUN,
        Cause.PERMANENT_ERROR,
        Cause.MAX_ATTEMPTS,
        Cause.PROVIDER_COST_LIMIT,
        Cause.UNKNOWN_OUTCOME,
        Cause.POISONED,
    ),
    *_arrows(JobState.RUNNING, JobState.CANCELLED, Actor.RUN, Cause.USER_CANCEL),
    *_arrows(
        JobState.RUNNING, JobState.QUEUED, Actor.REAPER, Cause.CRASHED_BEFORE_SEND, Cause.UNKNOWN_OUTCOME
    ),
    *_arrows(JobState.RUNNING, JobState.HELD, Actor.REAPER, Cause.UNKNOWN_OUTCOME),
    *_arrows(
        JobState.RUNNING,
        JobState.FAILED,
        Actor.REAPER,
        Cause.POISONED,
        Cause.MAX_ATTEMPTS,
        Cause.PROVIDER_COST_LIMIT,
        Cause.UNKNOWN_OUTCOME,
    ),
    *_arrows(JobState.RUNNING, JobState.CANCELLED, Actor.REAPER, Cause.USER_CANCEL),
    # The late result of a held attempt passes through RUNNING inside the transaction that accepts it.
    *_arrows(JobState.HELD, JobState.RUNNING, Actor.RUN, Cause.LATE_RESULT),
    *_arrows(JobState.HELD, JobState.CANCELLED, Actor.CALLER, Cause.USER_CANCEL),
    *_arrows(JobState.HELD, JobState.FAILED, Actor.REAPER, Cause.HOLD_TIMEOUT),
    *_arrows(JobState.HELD, JobState.QUEUED, Actor.OPERATOR, Cause.RESOLVED_RETRY),
    *_arrows(JobState.HELD, JobState.FAILED, Actor.OPERATOR, Cause.RESOLVED_FAIL),
    *_arrows(JobState.FAILED, JobState.QUEUED, Actor.OPERATOR, Cause.RETRIED),
)


def allowed(source: JobState | None, target: JobState, cause: Cause) -> bool:
    """Whether the table has this arrow."""
    return any((t.source, t.target, t.cause) == (source, target, cause) for t in TRANSITIONS)
