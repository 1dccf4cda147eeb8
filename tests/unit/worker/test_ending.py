"""What is written when a run ends."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

from jobs_store.decisions import charge_of_cancel
from jobs_store.endings import Finish, Return
from jobs_store.events import EventKind, NewEvent
from jobs_store.rate_card import Usage
from jobs_store.runs import CancelRequest
from jobs_store.states import Cause, ErrorClass, FinishReason, JobState, UnknownOutcomePolicy
from jobs_store.transitions import allowed
from tests.unit.worker.claimed import CARD, FRESH, MOMENT, TERMS, TIMING, WORST_CASE, claimed, longest
from worker.ending import EndedRun, Ending, Tail, cancelled, ending_of
from worker.outcome import CUT_OFF, WORKER_ERROR, Answered, Closed, Delivered, Failed, Stop, Unsent

if TYPE_CHECKING:
    from jobs_store.decisions import Terms
    from worker.outcome import CallEnd

USAGE = Usage(input_tokens=80, output_tokens=20)
ANSWER = Answered(finish_reason=FinishReason.LENGTH, provider_request_id="r", usage=USAGE)
DELTA = NewEvent(kind=EventKind.TOKEN_DELTA, text="Hello.", attributes={"offset": 0, "token_count": 3})
LOST = Failed(cause="CONNECTION_LOST", error_class=ErrorClass.UNKNOWN)
REQUEST = CancelRequest(time=MOMENT, principal="ada", reason="enough")


def _ended(end: CallEnd, *, terms: Terms = TERMS, crashes: int = 0) -> EndedRun:
    tally = replace(FRESH, crash_count=crashes)
    return EndedRun(
        run=claimed(terms=terms, tally=tally),
        end=end,
        delivered=Delivered(text="Hello.", tokens=3),
        tail=Tail(first_event=7, events=(DELTA,)),
    )


def _ending(end: CallEnd, *, terms: Terms = TERMS, crashes: int = 0) -> Ending:
    ending = ending_of(_ended(end, terms=terms, crashes=crashes), timing=TIMING, jitter=longest)
    assert allowed(JobState.RUNNING, ending.write.state, ending.write.cause)
    return ending


def _kinds(ending: Ending) -> list[EventKind]:
    return [event.kind for event in ending.write.events]


def test_an_acceptance_takes_result_money_and_unflushed_events_with_it() -> None:
    ending = _ending(ANSWER)
    assert isinstance(ending.write, Finish)
    assert (JobState.SUCCEEDED, CARD.amount(USAGE)) == (ending.write.state, ending.write.charge)
    assert ending.write.result is not None
    assert ("Hello.", FinishReason.LENGTH) == (ending.write.result.text, ending.write.result.finish_reason)
    assert EventKind.TOKEN_DELTA == _kinds(ending)[0]
    assert EventKind.STATE_CHANGED == _kinds(ending)[-1]
    assert ending.write.events[1:] == ending.last_events
    assert (7, True) == (ending.write.fence.first_event, ending.write.fence.by_run)


def test_a_failure_goes_back_to_the_queue_after_a_pause() -> None:
    ending = _ending(Failed(cause="SERVER_ERROR", error_class=ErrorClass.TRANSIENT, http_status=500))
    assert isinstance(ending.write, Return)
    assert (JobState.QUEUED, Cause.TRANSIENT_ERROR, 2.0) == (
        ending.write.state,
        ending.write.cause,
        ending.write.delay,
    )


def test_a_provider_that_asks_to_wait_is_given_that_time() -> None:
    ending = _ending(
        Failed(cause="OVERLOADED", error_class=ErrorClass.TRANSIENT, http_status=503, retry_after=30.0)
    )
    assert isinstance(ending.write, Return)
    assert (None, 30.0) == (ending.park, ending.write.delay)


def test_a_rate_limit_with_a_time_parks_the_lane_and_without_one_backs_off() -> None:
    limited = Failed(cause="RATE_LIMITED", error_class=ErrorClass.TRANSIENT, http_status=429)
    parked, waiting = _ending(replace(limited, retry_after=7.0)), _ending(limited)
    assert parked.park is not None
    assert (7.0, Cause.LANE_PARKED) == (parked.park.duration, parked.write.cause)
    assert (None, Cause.TRANSIENT_ERROR) == (waiting.park, waiting.write.cause)


def test_a_call_that_never_left_waits_longer_every_time() -> None:
    refused = Failed(cause="CONNECT_FAILED", error_class=ErrorClass.TRANSIENT, sent=False)
    delays = []
    for number in (1, 2, 3, 9):
        ended = replace(_ended(refused), run=claimed(tally=replace(FRESH, attempt_number=number)))
        write = ending_of(ended, timing=TIMING, jitter=longest).write
        assert isinstance(write, Return)
        assert Cause.NOT_SENT is write.cause
        delays.append(write.delay)
    assert [2.0, 4.0, 8.0, 8.0] == delays


def test_a_lost_answer_follows_the_jobs_policy() -> None:
    states = [
        _ending(LOST, terms=replace(TERMS, unknown_outcome_policy=policy)).write.state
        for policy in (UnknownOutcomePolicy.RETRY, UnknownOutcomePolicy.HOLD, UnknownOutcomePolicy.FAIL)
    ]
    assert [JobState.QUEUED, JobState.HELD, JobState.FAILED] == states


def test_what_was_not_sent_is_released_at_once() -> None:
    for end in (Unsent.because_of(Stop.SHUTDOWN), Unsent(cause=CUT_OFF)):
        ending = _ending(end)
        assert isinstance(ending.write, Return)
        assert (Cause.RELEASED, 0.0, False) == (
            ending.write.cause,
            ending.write.delay,
            ending.write.crashed,
        )


def test_the_tenth_crash_before_the_send_is_poison() -> None:
    crash = Unsent(cause=WORKER_ERROR, crashed=True)
    again, enough = _ending(crash, crashes=8), _ending(crash, crashes=9)
    assert isinstance(again.write, Return)
    assert again.write.crashed
    assert (JobState.FAILED, Cause.POISONED) == (enough.write.state, enough.write.cause)


def test_a_cancel_charges_what_was_delivered_and_tells_both_events() -> None:
    ending = cancelled(_ended(Closed(stop=Stop.CANCEL_REQUESTED, close_time=MOMENT)), REQUEST)
    assert isinstance(ending.write, Finish)
    charge = charge_of_cancel(CARD, input_estimate=90, delivered_tokens=3)
    assert (JobState.CANCELLED, charge) == (ending.write.state, ending.write.charge)
    assert [
        EventKind.TOKEN_DELTA,
        EventKind.CANCEL_REQUESTED,
        EventKind.PROVIDER_CALL_CLOSED,
        EventKind.COST_RECORDED,
        EventKind.ATTEMPT_ENDED,
        EventKind.STATE_CHANGED,
    ] == _kinds(ending)
    assert MOMENT == ending.write.events[1].time


def test_a_cancel_that_met_a_whole_answer_accepts_nothing_and_closed_nothing() -> None:
    ending = cancelled(_ended(ANSWER), REQUEST)
    assert isinstance(ending.write, Finish)
    assert None is ending.write.result
    assert EventKind.PROVIDER_CALL_CLOSED not in _kinds(ending)
    assert ending.write.attempt is not None
    assert ("CANCELLED", CARD.amount(USAGE)) == (
        ending.write.attempt.outcome,
        ending.write.attempt.cost.amount,
    )


def test_a_cancel_before_the_first_token_is_free() -> None:
    ended = replace(_ended(Unsent.because_of(Stop.CANCEL_REQUESTED)), delivered=Delivered())
    write = cancelled(ended, None).write
    assert isinstance(write, Finish)
    assert Decimal(0) == write.charge
    assert WORST_CASE > write.charge
