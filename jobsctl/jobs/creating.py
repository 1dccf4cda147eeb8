"""Making jobs, and asking what they would cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from hourglass.jobs.v1.jobs_service_pb2 import (
    CreateJobRequest,
    CreateJobResponse,
    QuoteLine,
    QuoteLineStatus,
    QuoteRequest,
    QuoteResponse,
    WorkerLoad,
)
from jobsctl.jobs.spec import SpecFlags, messages_of, spec_of
from jobsctl.jobs.tables import job_facts
from jobsctl.printer import Printer
from jobsctl.session import Session
from presentation.values import dollars, moment, short_name

QUOTE_COLUMNS: Final = ("model", "status", "at most", "affordable")


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    """What is to be made. `key`: empty for a fresh one. `text`: the spec's file."""

    flags: SpecFlags
    text: str | None
    key: str
    quote_id: str
    quiet: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is to be priced. `input_tokens`: a bound, instead of the prompt."""

    models: Sequence[str]
    flags: SpecFlags
    input_tokens: int | None


async def create(session: Session, creation: Creation) -> None:
    """Make the job once a key. A fresh key is told before the call: it can be repeated whatever comes."""
    key = creation.key or f"jobsctl-{uuid4()}"
    spec = spec_of(creation.flags, creation.text)
    if not creation.key:
        session.printer.remark(f"idempotency key {key} (repeat safely with --key {key})")
    request = CreateJobRequest(idempotency_key=key, spec=spec, quote_id=creation.quote_id)
    answer = await session.call("CreateJob", session.jobs.CreateJob, request)
    _show_created(session.printer, answer, quiet=creation.quiet)


async def quote(session: Session, question: Question) -> None:
    """Price the models."""
    request = QuoteRequest(
        models=question.models,
        messages=messages_of(question.flags),
        input_token_bound=question.input_tokens,
        max_output_token_count=question.flags.max_output_tokens,
    )
    answer = await session.call("Quote", session.jobs.Quote, request)
    if session.printer.json:
        session.printer.message(answer)
    else:
        _show_quote(session.printer, answer)


def _show_created(printer: Printer, answer: CreateJobResponse, *, quiet: bool) -> None:
    if quiet:
        printer.line(answer.job.job_id)
    elif printer.json:
        printer.message(answer)
    else:
        printer.facts(job_facts(answer.job))
        if answer.replayed:
            printer.remark("the key was known: this is the job that it created, as it is now")


def _show_quote(printer: Printer, answer: QuoteResponse) -> None:
    printer.facts(
        {
            "quote": f"{answer.quote_id}, until {moment(answer.expire_time)}",
            "tokens": f"at most {answer.input_token_bound} in, {answer.max_output_token_count} out",
            "funds": f"{dollars(answer.available_funds)} available",
            "workers": _load(answer.worker_load),
        }
    )
    printer.table(QUOTE_COLUMNS, map(_quote_row, answer.lines), right=("at most",))


def _quote_row(line: QuoteLine) -> Sequence[str]:
    status = short_name(QuoteLineStatus, line.status)
    if line.status != QuoteLineStatus.QUOTE_LINE_STATUS_OK:
        return line.model, f"{status} {line.reason}", "", ""
    return line.model, status, dollars(line.amount), "yes" if line.affordable else "no"


def _load(load: WorkerLoad) -> str:
    if load.status != QuoteLineStatus.QUOTE_LINE_STATUS_OK:
        return f"nobody looked: {load.reason or 'no answer'}"
    return f"{load.free_slot_count} of {load.slot_count} slots free"
