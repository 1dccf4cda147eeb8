"""Ending attempts and jobs: one way for every terminal path, one for every way back to the queue.

Used by runs (fenced by their token), by the reaper (fenced by the token that it saw, and checked again
under the lock) and by callers who cancel or decide (under the lock that they hold).
"""

from collections.abc import Sequence as Many
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Final, Protocol

from budget.errors import ConstraintViolation
from budget.postgres import Record
from jobs_store.attempts import AttemptEnd
from jobs_store.errors import AlreadySettled
from jobs_store.events import NewEvent
from jobs_store.identifiers import JobId, RunToken, Sequence, TenantId
from jobs_store.statements import statement
from jobs_store.states import Cause, FinishReason, JobState
from jobs_store.stored_json import dump

SETTLED_WITH_THE_ENDING: Final = "reservations_settled_with_the_ending"
"""What finish_jobs names when an ending finds no reservation to settle."""


class Verdict(StrEnum):
    """What a fenced write hit."""

    OK = "OK"
    LEASE_LOST = "LEASE_LOST"
    CANCEL_REQUESTED = "CANCEL_REQUESTED"
    NOT_DUE = "NOT_DUE"
    HELD = "HELD"
    BUSY = "BUSY"


class Due(StrEnum):
    """What an ender without a token of its own has seen, and what must still hold under the lock."""

    LEASE = "LEASE"
    QUEUE = "QUEUE"
    HOLD = "HOLD"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """Which row is meant, and by what right.

    token: as the ender knows it; None for a QUEUED job.
    by_run: the ender is the run that the token was made for, so its events go on in its epoch, from
        `first_event`.
    due, was_sent: what the reaper saw when it decided.
    """

    tenant: TenantId
    job_id: JobId
    token: RunToken | None
    by_run: bool = False
    first_event: int = 1
    due: Due | None = None
    was_sent: bool = False

    def to_json(self) -> dict[str, object]:
        """The columns of the fence."""
        return {
            "tenant_id": self.tenant,
            "id": self.job_id,
            "run_token": self.token,
            "by_run": self.by_run,
            "first_event": self.first_event,
            "due": self.due,
            "was_sent": self.was_sent,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The answer that is accepted."""

    text: str
    finish_reason: FinishReason
    provider_model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """A job ends for good. `charge` in dollars; what goes beyond the reservation is the operator's."""

    fence: Fence
    state: JobState
    cause: Cause
    charge: Decimal
    events: tuple[NewEvent, ...]
    attempt: AttemptEnd | None = None
    result: Result | None = None
    cancel_principal: str | None = None
    cancel_reason: str | None = None

    def to_json(self) -> dict[str, object]:
        """The form that finish_jobs reads."""
        return {
            **self.fence.to_json(),
            "state": self.state,
            "state_cause": self.cause,
            "charge": self.charge,
            "cancel_principal": self.cancel_principal,
            "cancel_reason": self.cancel_reason,
            "attempt": None if self.attempt is None else self.attempt.to_json(),
            "result": None if self.result is None else _result_json(self.result),
            "events": [event.to_json() for event in self.events],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Return:
    """A job goes on without a result: QUEUED after `delay` seconds, or HELD for `delay` seconds."""

    fence: Fence
    state: JobState
    cause: Cause
    delay: float
    events: tuple[NewEvent, ...]
    attempt: AttemptEnd | None = None
    crashed: bool = False

    def to_json(self) -> dict[str, object]:
        """The form that requeue_jobs reads."""
        return {
            **self.fence.to_json(),
            "state": self.state,
            "state_cause": self.cause,
            "delay": self.delay,
            "crashed": self.crashed,
            "attempt": None if self.attempt is None else self.attempt.to_json(),
            "events": [event.to_json() for event in self.events],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What an ending came to. `last_sequence` is that of its last event; `captured`, `released` in dollars.

    lane: the job's. earlier_attempts: those before this one that count.
    time: of those of its events that had none. ready_time: when a QUEUED job may be claimed.
    """

    verdict: Verdict
    time: datetime | None = None
    last_sequence: Sequence | None = None
    captured: Decimal = Decimal(0)
    ready_time: datetime | None = None
    lane: str = ""
    released: Decimal = Decimal(0)
    earlier_attempts: int = 0


class Executor(Protocol):
    """A transaction, or anything else that can run a statement."""

    async def fetch(self, sql: str, *arguments: object) -> list[Record]:
        """The rows that a statement answers."""


async def finish_jobs(executor: Executor, endings: Many[Finish]) -> list[Ended]:
    """End jobs for good and settle their money; answers what each came to, in order.

    Raises AlreadySettled, and ends none of them, when a job's money had been settled without ending it.
    """
    try:
        rows = await executor.fetch(statement("finish_jobs"), _rows(endings))
    except ConstraintViolation as violation:
        if violation.constraint != SETTLED_WITH_THE_ENDING:
            raise
        raise AlreadySettled(*(ending.fence.job_id for ending in endings)) from violation
    return [
        Ended(
            verdict=Verdict(row["verdict"]),
            time=row["end_time"],
            last_sequence=row["last_sequence"],
            captured=row["captured"],
            released=row["released"],
            lane=row["lane"],
            earlier_attempts=row["earlier_attempts"],
        )
        for row in rows
    ]


async def requeue_jobs(executor: Executor, endings: Many[Return]) -> list[Ended]:
    """End attempts whose jobs go on; answers what each came to, in order."""
    rows = await executor.fetch(statement("requeue_jobs"), _rows(endings))
    return [
        Ended(
            verdict=Verdict(row["verdict"]),
            time=row["end_time"],
            last_sequence=row["last_sequence"],
            ready_time=row["ready_time"],
            lane=row["lane"],
            earlier_attempts=row["earlier_attempts"],
        )
        for row in rows
    ]


def _rows(endings: Many[Finish | Return]) -> str:
    return dump([{"ordinal": ordinal, **ending.to_json()} for ordinal, ending in enumerate(endings)])


def _result_json(result: Result) -> dict[str, object]:
    return {
        "text": result.text,
        "finish_reason": result.finish_reason,
        "provider_model": result.provider_model,
    }
