"""What is written when a run ends: the one ending of its job, with its events and its money. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Final, assert_never

from jobs_store.decisions import (
    Decision,
    Fail,
    Hold,
    Jitter,
    Park,
    Requeue,
    RetryTiming,
    charge_of_cancel,
    decide,
)
from jobs_store.endings import Fence, Finish, Result, Return
from jobs_store.events import (
    EventKind,
    NewEvent,
    attempt_ended,
    cancel_requested,
    provider_call_closed,
    result_accepted,
    state_changed,
    usage_attributes,
)
from jobs_store.states import Cause, CostBasis, JobState
from worker.outcome import Answered, Closed, Failed, Stop, Unsent, attempt_end, charge_of_answer, not_accepted

if TYPE_CHECKING:
    from jobs_store.attempts import AttemptEnd
    from jobs_store.decisions import Tally
    from jobs_store.runs import CancelRequest, Claimed
    from worker.outcome import CallEnd, Delivered

NOTHING: Final = Decimal(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """The events of the run's log that may not be durable yet, from number `first_event` of its epoch on."""

    first_event: int
    events: tuple[NewEvent, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What to write. `last_events` come after the tail; `park` goes first, or others meet the same wall."""

    write: Finish | Return
    last_events: tuple[NewEvent, ...]
    park: Park | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedRun:
    """A run whose call is over."""

    run: Claimed
    end: CallEnd
    delivered: Delivered
    tail: Tail

    @property
    def attempt(self) -> AttemptEnd:
        """What its attempt came to."""
        return attempt_end(self.run, self.end, self.delivered)

    def with_tally(self, tally: Tally) -> EndedRun:
        """The same, decided about by what is known of its job by now."""
        return replace(self, run=replace(self.run, tally=tally))


def ending_of(ended: EndedRun, *, timing: RetryTiming, jitter: Jitter) -> Ending:
    """Accept the answer, or let the rules decide what becomes of the job."""
    if isinstance(ended.end, Answered):
        return _acceptance(ended, ended.end)
    attempt = ended.attempt
    decision = decide(
        attempt,
        terms=ended.run.terms,
        tally=ended.run.tally,
        timing=timing,
        jitter=jitter,
        crashed=isinstance(ended.end, Unsent) and ended.end.crashed,
        sent=not isinstance(ended.end, Failed) or ended.end.sent,
        retry_after=ended.end.retry_after if isinstance(ended.end, Failed) else None,
    )
    return _decided(ended, attempt, decision)


def cancelled(ended: EndedRun, request: CancelRequest | None) -> Ending:
    """The job ends CANCELLED: what was delivered is charged, up to the reservation."""
    attempt = not_accepted(ended.attempt)
    charge = charge_of_cancel(
        ended.run.rate_card,
        input_estimate=ended.run.input_token_estimate,
        delivered_tokens=ended.delivered.tokens,
    )
    events = (*_cancel_events(ended.end, request), *attempt_ended(attempt))
    return _finish(ended, JobState.CANCELLED, Cause.USER_CANCEL, attempt, events, charge=charge)


def _cancel_events(end: CallEnd, request: CancelRequest | None) -> tuple[NewEvent, ...]:
    asked = () if request is None else (_asked(request),)
    if isinstance(end, Closed) and end.stop is Stop.CANCEL_REQUESTED:
        return (*asked, provider_call_closed(end.close_time))
    return asked


def _asked(request: CancelRequest) -> NewEvent:
    return cancel_requested(principal=request.principal, reason=request.reason, time=request.time)


def _acceptance(ended: EndedRun, answer: Answered) -> Ending:
    attempt, text = ended.attempt, ended.delivered.text
    events = (
        *_usage_reported(attempt),
        *attempt_ended(attempt),
        result_accepted(answer.finish_reason, attempt.usage, len(text)),
    )
    result = Result(text=text, finish_reason=answer.finish_reason, provider_model=ended.run.model)
    charge = charge_of_answer(ended.run.rate_card, attempt.usage)
    return _finish(ended, JobState.SUCCEEDED, Cause.ACCEPTED, attempt, events, charge=charge, result=result)


def _usage_reported(attempt: AttemptEnd) -> tuple[NewEvent, ...]:
    if attempt.cost.basis is not CostBasis.REPORTED:
        return ()
    return (NewEvent(kind=EventKind.USAGE_REPORTED, attributes=usage_attributes(attempt.usage)),)


def _decided(ended: EndedRun, attempt: AttemptEnd, decision: Decision) -> Ending:
    match decision:
        case Fail(cause=cause):
            return _finish(ended, JobState.FAILED, cause, attempt, attempt_ended(attempt))
        case Requeue(cause=cause, delay=delay, crashed=crashed, park=park):
            return _return(ended, JobState.QUEUED, cause, attempt, delay=delay, crashed=crashed, park=park)
        case Hold(cause=cause, timeout=timeout):
            return _return(ended, JobState.HELD, cause, attempt, delay=timeout)
        case _:
            assert_never(decision)


def _finish(
    ended: EndedRun,
    state: JobState,
    cause: Cause,
    attempt: AttemptEnd,
    events: tuple[NewEvent, ...],
    *,
    charge: Decimal = NOTHING,
    result: Result | None = None,
) -> Ending:
    last = (*events, state_changed(state, cause))
    finish = Finish(
        fence=_fence(ended),
        state=state,
        cause=cause,
        charge=charge,
        events=(*ended.tail.events, *last),
        attempt=attempt,
        result=result,
    )
    return Ending(write=finish, last_events=last)


def _return(
    ended: EndedRun,
    state: JobState,
    cause: Cause,
    attempt: AttemptEnd,
    *,
    delay: float,
    crashed: bool = False,
    park: Park | None = None,
) -> Ending:
    last = (*attempt_ended(attempt), state_changed(state, cause))
    give_back = Return(
        fence=_fence(ended),
        state=state,
        cause=cause,
        delay=delay,
        events=(*ended.tail.events, *last),
        attempt=attempt,
        crashed=crashed,
    )
    return Ending(write=give_back, last_events=last, park=park)


def _fence(ended: EndedRun) -> Fence:
    run = ended.run
    return Fence(
        tenant=run.tenant,
        job_id=run.job_id,
        token=run.token,
        by_run=True,
        first_event=ended.tail.first_event,
    )
