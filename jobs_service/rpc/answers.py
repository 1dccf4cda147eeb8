"""What the use cases answer, as messages."""

from decimal import Decimal
from typing import assert_never

from hourglass.jobs.v1 import event_pb2, job_pb2
from hourglass.jobs.v1 import jobs_service_pb2 as pb
from jobs_service.domain.quoting import Line, Load, Quoted
from jobs_service.domain.short_call import CallerMessage, Finished, Started, Text
from jobs_service.service.creation import Outcome
from servicekit.wire_money import money_of
from servicekit.wire_time import timestamp_of
from wire.enums import to_wire
from wire.job import job_message, usage_message
from wire.rate_card import rate_card_message


def quote_answer(quoted: Quoted) -> pb.QuoteResponse:
    """A quote."""
    return pb.QuoteResponse(
        quote_id=str(quoted.quote_id),
        lines=[_line_message(line, quoted.available) for line in quoted.lines],
        input_token_bound=quoted.bounds.input_tokens,
        max_output_token_count=quoted.bounds.output_tokens,
        expire_time=timestamp_of(quoted.expire_time),
        available_funds=money_of(quoted.available),
        worker_load=_load_message(quoted.load),
    )


def create_answer(outcome: Outcome) -> pb.CreateJobResponse:
    """The job of a key."""
    return pb.CreateJobResponse(
        job=job_message(outcome.job),
        replayed=outcome.replayed,
        key_expire_time=timestamp_of(outcome.key_expire_time),
    )


def generate_answer(message: CallerMessage) -> pb.GenerateResponse:
    """The next message of a short call."""
    match message:
        case Started(call_id=call_id, reserved=reserved):
            started = pb.GenerateStarted(call_id=str(call_id), reserved_amount=money_of(reserved))
            return pb.GenerateResponse(started=started)
        case Text(text=text, offset=offset, tokens=tokens):
            delta = event_pb2.TokenDelta(text=text, offset=offset, token_count=tokens)
            return pb.GenerateResponse(token_delta=delta)
        case Finished():
            return pb.GenerateResponse(finished=_finished_message(message))
        case _:
            assert_never(message)


def _finished_message(finished: Finished) -> pb.GenerateFinished:
    return pb.GenerateFinished(
        finish_reason=to_wire(job_pb2.FinishReason, finished.finish_reason),
        usage=usage_message(finished.usage),
        captured_amount=money_of(finished.captured),
    )


def _line_message(line: Line, available: Decimal) -> pb.QuoteLine:
    message = pb.QuoteLine(
        model=line.model, status=to_wire(pb.QuoteLineStatus, line.status), reason=line.reason
    )
    if line.priced is not None:
        message.amount.CopyFrom(money_of(line.priced.amount))
        message.rate_card.CopyFrom(rate_card_message(line.priced.rate_card))
        message.affordable = line.priced.amount <= available
    return message


def _load_message(load: Load) -> pb.WorkerLoad:
    return pb.WorkerLoad(
        status=to_wire(pb.QuoteLineStatus, load.status),
        reason=load.reason,
        free_slot_count=load.free_slots,
        slot_count=load.slots,
    )
