"""Jobs as tables and facts. Pure but for the printer."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from hourglass.jobs.v1 import job_pb2
from hourglass.jobs.v1.job_pb2 import Attempt, Job, JobCharge
from jobsctl.jobs.lines import cause_text, cost_text, outcome_name, state_name, usage_text
from jobsctl.printer import Printer
from presentation.values import between, dollars, lasted, moment, short_name
from servicekit.wire_money import amount_of

LIST_COLUMNS: Final = ("job", "state", "cause", "model", "created", "took", "attempts", "charged", "reserved")
ATTEMPT_COLUMNS: Final = (
    "attempt",
    "worker",
    "outcome",
    "cause",
    "claimed",
    "sent after",
    "first token",
    "took",
    "tokens",
    "provider cost",
)
RESERVATION_COLUMNS: Final = (
    "reservation",
    "amount",
    "charged",
    "given back",
    "made",
    "settled",
    "cause",
    "overrun",
)


def show_list(printer: Printer, jobs: Iterable[Job]) -> None:
    """One line a job."""
    printer.table(LIST_COLUMNS, map(_list_row, jobs), right=("took", "attempts", "charged", "reserved"))


def show_job(printer: Printer, job: Job) -> None:
    """Everything that is known of one job."""
    printer.facts(job_facts(job))
    if job.attempts:
        show_attempts(printer, job)
    if job.charge.reservations:
        show_reservations(printer, job.charge)
    if job.HasField("spec"):
        _show_spec(printer, job)
    if job.HasField("result"):
        _show_result(printer, job)


def job_facts(job: Job) -> Mapping[str, str]:
    """A job in labelled lines."""
    return {
        "job": job.job_id,
        "state": f"{state_name(job.state)} ({job.state_cause})",
        "model": job.model,
        "lane": job.lane,
        "created": f"{moment(job.create_time)} by {job.principal}",
        "ended": _ended(job),
        "ready": moment(job.ready_time) if not job.HasField("end_time") else "",
        "expires": moment(job.state_expire_time) if job.HasField("state_expire_time") else "",
        "cancel asked": moment(job.cancel_request_time) if job.HasField("cancel_request_time") else "",
        "erased": moment(job.erase_time) if job.HasField("erase_time") else "",
        "attempts": f"{job.attempt_count} counted",
        "charge": charge_text(job.charge),
        "price": price_basis(job.charge),
        "provider cost": cost_text(job.provider_cost),
        "labels": ", ".join(f"{key}={value}" for key, value in sorted(job.labels.items())),
    }


def charge_text(charge: JobCharge) -> str:
    """What was charged, of how much."""
    open_text = f", {dollars(charge.reserved_amount)} reserved" if amount_of(charge.reserved_amount) else ""
    return f"{dollars(charge.captured_amount)} of at most {dollars(charge.quoted_amount)}{open_text}"


def price_basis(charge: JobCharge) -> str:
    """Where the price came from, and its version."""
    basis = short_name(job_pb2.PriceBasis, charge.price_basis).lower().replace("_", " ")
    return f"{basis}, price version {charge.rate_card.price_version}"


def show_attempts(printer: Printer, job: Job) -> None:
    """One line an attempt."""
    printer.table(
        ATTEMPT_COLUMNS,
        map(_attempt_row, job.attempts),
        right=("sent after", "first token", "took"),
    )


def show_reservations(printer: Printer, charge: JobCharge) -> None:
    """One line a reservation."""
    printer.table(
        RESERVATION_COLUMNS,
        [
            (
                str(each.number),
                dollars(each.amount),
                dollars(each.captured_amount),
                dollars(each.released_amount),
                moment(each.create_time),
                moment(each.settle_time),
                each.settle_cause or "open",
                dollars(each.overrun_amount) if amount_of(each.overrun_amount) else "",
            )
            for each in charge.reservations
        ],
        right=("amount", "charged", "given back", "overrun"),
    )


def _list_row(job: Job) -> Sequence[str]:
    return (
        job.job_id,
        state_name(job.state),
        job.state_cause,
        job.model,
        moment(job.create_time),
        lasted(job.create_time, job.end_time),
        str(job.attempt_count),
        dollars(job.charge.captured_amount),
        dollars(job.charge.reserved_amount),
    )


def _attempt_row(attempt: Attempt) -> Sequence[str]:
    used = attempt.usage.input_token_count or attempt.usage.output_token_count
    return (
        f"{attempt.number}" if attempt.counted or not attempt.HasField("end_time") else f"{attempt.number}*",
        attempt.worker_id,
        outcome_name(attempt.outcome),
        cause_text(attempt.cause, attempt.error_class),
        moment(attempt.claim_time),
        between(attempt.claim_time, attempt.send_time),
        between(attempt.send_time, attempt.first_token_time),
        lasted(attempt.claim_time, attempt.end_time),
        usage_text(attempt.usage) if used else "",
        cost_text(attempt.provider_cost),
    )


def _ended(job: Job) -> str:
    if not job.HasField("end_time"):
        return ""
    return f"{moment(job.end_time)}, after {lasted(job.create_time, job.end_time)}"


def _show_spec(printer: Printer, job: Job) -> None:
    for message in job.spec.messages:
        role = short_name(job_pb2.Role, message.role).lower()
        printer.heading(role)
        printer.line(message.content)


def _show_result(printer: Printer, job: Job) -> None:
    finish = short_name(job_pb2.FinishReason, job.result.finish_reason)
    printer.heading(f"result ({finish}, {usage_text(job.result.usage)} tokens, {job.result.provider_model})")
    printer.line(job.result.text)
