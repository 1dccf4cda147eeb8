"""Jobs as the contract shows them: state, attempts, charge and cost, content."""

from datetime import datetime

from google.protobuf.timestamp_pb2 import Timestamp

from hourglass.jobs.v1 import job_pb2 as pb
from jobs_store.attempts import ProviderCost
from jobs_store.rate_card import Usage
from jobs_store.reading import Attempted, JobContent, JobDetail, JobView, Reservation, Running, SpecLimits
from servicekit.wire_ledger import ledger_message_of_text
from servicekit.wire_money import money_of
from servicekit.wire_time import duration_of, timestamp_of
from wire.enums import to_wire
from wire.rate_card import rate_card_message

CREATE_METHOD = "hourglass.jobs.v1.JobService/CreateJob"


def job_message(job: JobView) -> pb.Job:
    """A job without attempts and content, as a list shows it."""
    return pb.Job(
        job_id=str(job.job_id),
        state=to_wire(pb.JobState, job.state),
        state_cause=job.state_cause,
        principal=job.principal,
        model=job.model,
        lane=job.lane,
        create_time=timestamp_of(job.create_time),
        update_time=timestamp_of(job.update_time),
        end_time=_optional(job.end_time),
        ready_time=timestamp_of(job.ready_time),
        epoch=job.epoch,
        attempt_count=job.attempt_count,
        cancel_request_time=_optional(job.cancel_request_time),
        erase_time=_optional(job.erase_time),
        labels=job.labels,
        charge=_charge_message(job),
        provider_cost=provider_cost_message(job.cost),
        traceparent=job.traceparent,
        state_expire_time=_optional(job.state_expire_time),
    )


def job_detail_message(detail: JobDetail, *, with_attempts: bool = False) -> pb.Job:
    """A job with what was read of its attempts, reservations and content."""
    message = job_message(detail.job)
    if with_attempts:
        message.attempts.extend(map(attempt_message, detail.attempts))
        if detail.running is not None:
            message.attempts.append(_running_message(detail.running))
        message.charge.reservations.extend(map(_reservation_message, detail.reservations))
        message.create_ledger.CopyFrom(ledger_message_of_text(detail.ledger, method=CREATE_METHOD))
    if detail.content is not None:
        _add_content(message, detail.job, detail.limits, detail.content)
    return message


def attempt_message(attempt: Attempted) -> pb.Attempt:
    """An attempt that ended."""
    end = attempt.end
    return pb.Attempt(
        number=attempt.number,
        worker_id=attempt.worker_id,
        claim_time=timestamp_of(attempt.claim_time),
        send_time=_optional(attempt.send_time),
        first_token_time=_optional(end.first_token_time),
        end_time=timestamp_of(attempt.end_time),
        outcome=to_wire(pb.AttemptOutcome, end.outcome),
        cause=end.cause,
        error_class=to_wire(pb.ErrorClass, end.error_class),
        error_message=end.error_message,
        provider_request_id=end.provider_request_id,
        usage=usage_message(end.usage),
        provider_cost=provider_cost_message(end.cost),
        counted=end.counted,
    )


def usage_message(usage: Usage) -> pb.TokenUsage:
    """Tokens."""
    return pb.TokenUsage(
        input_token_count=usage.input_tokens,
        cached_input_token_count=usage.cached_input_tokens,
        output_token_count=usage.output_tokens,
    )


def provider_cost_message(cost: ProviderCost) -> pb.ProviderCost:
    """What an attempt, or all of them, cost the operator."""
    return pb.ProviderCost(
        amount=money_of(cost.amount),
        basis=to_wire(pb.CostBasis, cost.basis),
        unknown_worst_case_amount=money_of(cost.worst_case),
    )


def _running_message(running: Running) -> pb.Attempt:
    return pb.Attempt(
        number=running.number,
        worker_id=running.worker_id,
        claim_time=timestamp_of(running.claim_time),
        send_time=_optional(running.send_time),
        outcome=pb.ATTEMPT_OUTCOME_RUNNING,
    )


def _charge_message(job: JobView) -> pb.JobCharge:
    return pb.JobCharge(
        captured_amount=money_of(job.captured),
        reserved_amount=money_of(job.reserved),
        quoted_amount=money_of(job.quoted_amount),
        rate_card=rate_card_message(job.rate_card),
        price_basis=to_wire(pb.PriceBasis, job.price_basis),
    )


def _reservation_message(reservation: Reservation) -> pb.Reservation:
    return pb.Reservation(
        number=reservation.number,
        amount=money_of(reservation.amount),
        captured_amount=money_of(reservation.captured),
        released_amount=money_of(reservation.released),
        create_time=timestamp_of(reservation.create_time),
        settle_time=_optional(reservation.settle_time),
        settle_cause=reservation.settle_cause,
        overrun_amount=money_of(reservation.overrun),
    )


def _add_content(message: pb.Job, job: JobView, limits: SpecLimits, content: JobContent) -> None:
    if content.messages is not None:
        message.spec.CopyFrom(_spec_message(job, limits, content))
    if content.result is not None:
        message.result.CopyFrom(_result_message(content))


def _spec_message(job: JobView, limits: SpecLimits, content: JobContent) -> pb.JobSpec:
    return pb.JobSpec(
        model=job.model,
        messages=[
            pb.Message(role=to_wire(pb.Role, message["role"].upper()), content=message["content"])
            for message in content.messages or ()
        ],
        max_output_token_count=limits.max_output_tokens,
        sampling=_sampling_message(content),
        max_charge=None if limits.max_charge is None else money_of(limits.max_charge),
        provider_cost_limit=money_of(limits.provider_cost_limit),
        attempt_timeout_duration=duration_of(limits.attempt_timeout),
        max_attempt_count=limits.max_attempts,
        unknown_outcome_policy=to_wire(pb.UnknownOutcomePolicy, limits.unknown_outcome_policy),
        priority=limits.priority,
        schedule_time=_optional(limits.schedule_time),
        queue_timeout_duration=duration_of(limits.queue_timeout),
        labels=job.labels,
    )


def _sampling_message(content: JobContent) -> pb.SamplingOptions:
    sampling = content.sampling
    return pb.SamplingOptions(
        temperature=sampling.get("temperature"),
        top_p=sampling.get("top_p"),
        stop_sequences=sampling.get("stop") or (),
        seed=sampling.get("seed"),
    )


def _result_message(content: JobContent) -> pb.JobResult:
    result, usage, accept_time = content.result, content.usage, content.accept_time
    assert result is not None
    assert usage is not None
    assert accept_time is not None
    return pb.JobResult(
        text=result.text,
        finish_reason=to_wire(pb.FinishReason, result.finish_reason),
        usage=usage_message(usage),
        provider_model=result.provider_model,
        attempt_number=content.attempt_number or 0,
        accept_time=timestamp_of(accept_time),
    )


def _optional(moment: datetime | None) -> Timestamp | None:
    return None if moment is None else timestamp_of(moment)
