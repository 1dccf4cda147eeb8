"""Jobs and events for tests of how they are shown: all of them at noon."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp
from google.type.money_pb2 import Money

from hourglass.jobs.v1.event_pb2 import (
    AttemptEnded,
    AttemptSent,
    AttemptStarted,
    CancelRequested,
    CostRecorded,
    JobEvent,
    ProviderCallClosed,
    ResultAccepted,
    StateChanged,
)
from hourglass.jobs.v1.job_pb2 import (
    Attempt,
    AttemptOutcome,
    CostBasis,
    ErrorClass,
    FinishReason,
    Job,
    JobCharge,
    JobState,
    PriceBasis,
    ProviderCost,
    Reservation,
    TokenUsage,
)
from hourglass.pricing.v1.pricing_service_pb2 import RateCard
from servicekit.wire_money import money_of
from servicekit.wire_time import timestamp_of
from tests.ledgers import ledger, spend

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
JOB_ID = "01a22d49-b7d7-7075-b32c-ecffb9470433"
LANE = "simulated/simulated-fast"


def at(seconds: float) -> Timestamp:
    """So long after noon."""
    return timestamp_of(NOON + timedelta(seconds=seconds))


def usd(amount: str) -> Money:
    """Dollars."""
    return money_of(Decimal(amount))


def unknown_cost() -> ProviderCost:
    """Of an attempt of which nobody knows what it cost."""
    basis = CostBasis.COST_BASIS_UNKNOWN
    return ProviderCost(amount=usd("0"), basis=basis, unknown_worst_case_amount=usd("0.0004"))


def reported_cost() -> ProviderCost:
    """Of an attempt that went well."""
    return ProviderCost(amount=usd("0.0001"), basis=CostBasis.COST_BASIS_REPORTED)


def job(state: str, cause: str, **fields: Any) -> Job:
    """A job of two attempts at most that was created at noon."""
    charge = JobCharge(
        quoted_amount=usd("0.0005"),
        captured_amount=usd("0"),
        price_basis=PriceBasis.PRICE_BASIS_LIVE,
        rate_card=RateCard(price_version="v7"),
    )
    return Job(
        **{
            "job_id": JOB_ID,
            "state": JobState.Value(f"JOB_STATE_{state}"),
            "state_cause": cause,
            "principal": "ann",
            "model": "simulated-fast",
            "lane": LANE,
            "create_time": at(0),
            "ready_time": at(0),
            "charge": charge,
            **fields,
        }
    )


def event(seconds: float, attempt: int = 0, **what: Any) -> JobEvent:
    """Something that happened."""
    return JobEvent(event_time=at(seconds), attempt_number=attempt, **what)


def changed(seconds: float, state: str, cause: str, **fields: Any) -> JobEvent:
    """The job changed its state."""
    value = JobState.Value(f"JOB_STATE_{state}")
    return event(seconds, state_changed=StateChanged(state=value, cause=cause, **fields))


def claim(seconds: float, attempt: int, worker: str) -> list[JobEvent]:
    """A worker claims the job and calls the provider 10 ms later."""
    return [
        changed(seconds, "RUNNING", "CLAIMED"),
        event(seconds, attempt, attempt_started=AttemptStarted(worker_id=worker)),
        event(
            seconds + 0.01,
            attempt,
            attempt_sent=AttemptSent(provider="simulated", provider_model="simulated-fast"),
        ),
    ]


def lost(seconds: float, attempt: int) -> list[JobEvent]:
    """An attempt whose worker died."""
    ended = AttemptEnded(
        outcome=AttemptOutcome.ATTEMPT_OUTCOME_UNKNOWN,
        cause="LEASE_EXPIRED",
        error_class=ErrorClass.ERROR_CLASS_UNKNOWN,
    )
    cost = CostRecorded(provider_cost=unknown_cost())
    return [event(seconds, attempt, cost_recorded=cost), event(seconds, attempt, attempt_ended=ended)]


def won(seconds: float, attempt: int) -> list[JobEvent]:
    """An attempt whose answer was accepted, and the end of the job."""
    ended = AttemptEnded(outcome=AttemptOutcome.ATTEMPT_OUTCOME_SUCCEEDED, cause="COMPLETED")
    accepted = ResultAccepted(
        finish_reason=FinishReason.FINISH_REASON_STOP,
        usage=TokenUsage(input_token_count=15, cached_input_token_count=4, output_token_count=48),
        text_length=240,
    )
    terminal = changed(seconds, "SUCCEEDED", "ACCEPTED", terminal=True, captured_amount=usd("0.00012"))
    return [
        event(seconds, attempt, cost_recorded=CostRecorded(provider_cost=reported_cost())),
        event(seconds, attempt, attempt_ended=ended),
        event(seconds, attempt, result_accepted=accepted),
        terminal,
    ]


def cancelled_call(seconds: float, attempt: int) -> list[JobEvent]:
    """A cancel in mid-answer: asked for, and the call closed 20 ms later."""
    asked = CancelRequested(principal="ann", reason="asked twice")
    closed = ProviderCallClosed(close_time=at(seconds + 0.02))
    return [
        event(seconds, attempt, cancel_requested=asked),
        event(seconds + 0.02, attempt, provider_call_closed=closed),
    ]


def first_attempt(**fields: Any) -> Attempt:
    """Claimed by worker-1 after a second, sent, and lost with its worker after four."""
    return Attempt(
        **{
            "number": 1,
            "worker_id": "worker-1",
            "claim_time": at(1),
            "send_time": at(1.01),
            "end_time": at(4),
            "outcome": AttemptOutcome.ATTEMPT_OUTCOME_UNKNOWN,
            "cause": "LEASE_EXPIRED",
            "error_class": ErrorClass.ERROR_CLASS_UNKNOWN,
            "provider_cost": unknown_cost(),
            "counted": True,
            **fields,
        }
    )


def second_attempt() -> Attempt:
    """Claimed by worker-2 after 4.2 s; its answer was accepted two seconds later."""
    return Attempt(
        number=2,
        worker_id="worker-2",
        claim_time=at(4.2),
        send_time=at(4.21),
        first_token_time=at(4.4),
        end_time=at(6.2),
        outcome=AttemptOutcome.ATTEMPT_OUTCOME_SUCCEEDED,
        cause="COMPLETED",
        usage=TokenUsage(input_token_count=15, cached_input_token_count=4, output_token_count=48),
        provider_cost=reported_cost(),
        counted=True,
    )


def finished_after_two_attempts() -> tuple[Job, list[JobEvent]]:
    """A job whose first worker died, as it looks in the end, and its log."""
    reservation = Reservation(
        number=1,
        amount=usd("0.0005"),
        captured_amount=usd("0.00012"),
        released_amount=usd("0.00038"),
        create_time=at(0),
        settle_time=at(6.2),
        settle_cause="ACCEPTED",
    )
    told = job(
        "SUCCEEDED",
        "ACCEPTED",
        end_time=at(6.2),
        attempt_count=2,
        attempts=[first_attempt(), second_attempt()],
        provider_cost=ProviderCost(
            amount=usd("0.0001"),
            basis=CostBasis.COST_BASIS_UNKNOWN,
            unknown_worst_case_amount=usd("0.0004"),
        ),
        labels={"batch": "7"},
        create_ledger=ledger(
            spend("find_idempotency_key", remaining=1.8, took=0.02),
            spend("create_job", remaining=1.75, took=0.05),
        ),
    )
    told.charge.captured_amount.CopyFrom(usd("0.00012"))
    told.charge.reservations.append(reservation)
    log = [
        changed(0, "QUEUED", "CREATED"),
        *claim(1, 1, "worker-1"),
        *lost(4, 1),
        changed(4, "QUEUED", "UNKNOWN_OUTCOME", ready_time=at(4.2)),
        *claim(4.2, 2, "worker-2"),
        *won(6.2, 2),
    ]
    return told, log
