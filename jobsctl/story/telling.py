"""The story on paper: its parts in order."""

from collections.abc import Mapping
from decimal import Decimal

from hourglass.jobs.v1.event_pb2 import JobEvent
from hourglass.jobs.v1.job_pb2 import AttemptOutcome, CostBasis, Job
from jobsctl.jobs.lines import by_whom, cost_text, event_line, outcome_name, state_name
from jobsctl.jobs.tables import price_basis, show_attempts, show_reservations
from jobsctl.printer import Printer
from jobsctl.story.facts import Facts
from jobsctl.story.waiting import waits_for
from presentation.ledger_table import ledger_lines
from presentation.values import counted, dollars, dollars_of, lasted, moment, span
from servicekit.wire_money import amount_of
from servicekit.wire_time import datetime_of


def tell(facts: Facts, printer: Printer) -> None:
    """Everything, in order."""
    _tell_who(facts.job, printer)
    _tell_creation(facts.job, printer)
    _tell_events(facts, printer)
    _tell_attempts(facts.job, printer)
    _tell_money(facts.job, printer)
    _tell_cancel(facts, printer)
    printer.heading("What it waits for now")
    printer.line(waits_for(facts))


def _tell_who(job: Job, printer: Printer) -> None:
    printer.line(f"Job {job.job_id} is {state_name(job.state)} ({job.state_cause})", style="bold")
    printer.facts(
        {
            "model": f"{job.model}, in lane {job.lane}",
            "created": f"{moment(job.create_time)} by {job.principal}",
            "ended": _ended(job),
            "labels": ", ".join(f"{key}={value}" for key, value in sorted(job.labels.items())),
            "trace": job.traceparent,
            "content": f"erased {moment(job.erase_time)}" if job.HasField("erase_time") else "",
        }
    )


def _tell_creation(job: Job, printer: Printer) -> None:
    printer.heading("How it was created")
    printer.line(f"price: {price_basis(job.charge)}; at most {dollars(job.charge.quoted_amount)}")
    if not job.create_ledger.spends:
        printer.line("its ledger is not kept")
        return
    unicode = printer.out.encoding.lower().startswith("utf")
    for part in ledger_lines(job.create_ledger, width=printer.picture_width, unicode=unicode):
        printer.show(part)


def _tell_events(facts: Facts, printer: Printer) -> None:
    printer.heading("What happened (UTC)")
    if facts.no_log:
        printer.line(facts.no_log)
    previous: JobEvent | None = None
    for event in facts.events:
        printer.line(f"{_since(previous, event):>9}  {event_line(event)}")
        previous = event


def _tell_attempts(job: Job, printer: Printer) -> None:
    if not job.attempts:
        return
    printer.heading(f"Attempts ({job.attempt_count} counted)")
    show_attempts(printer, job)
    for attempt in job.attempts:
        if attempt.error_message:
            printer.line(f"attempt {attempt.number}: {attempt.error_message}")
    if any(attempt.HasField("end_time") and not attempt.counted for attempt in job.attempts):
        printer.line("* not counted against max_attempt_count", style="dim")


def _tell_money(job: Job, printer: Printer) -> None:
    printer.heading("Money")
    show_reservations(printer, job.charge)
    printer.facts(_money(job))


def _money(job: Job) -> Mapping[str, str]:
    charge = job.charge
    given_back = sum((amount_of(r.released_amount) for r in charge.reservations), Decimal(0))
    overrun = sum((amount_of(r.overrun_amount) for r in charge.reservations), Decimal(0))
    open_amount = amount_of(charge.reserved_amount)
    return {
        "quoted": f"{dollars(charge.quoted_amount)} at most",
        "charged": f"{dollars(charge.captured_amount)}{_share(job)}",
        "given back": dollars_of(given_back) if given_back else "",
        "reserved": f"{dollars_of(open_amount)} still set aside" if open_amount else "",
        "overrun": f"{dollars_of(overrun)}, the operator's loss" if overrun else "",
        "provider cost": f"{cost_text(job.provider_cost)}, over {counted(len(job.attempts), 'attempt')}",
        "margin": _margin(job),
    }


def _share(job: Job) -> str:
    most = amount_of(job.charge.quoted_amount)
    if not (job.HasField("end_time") and most):
        return ""
    return f" ({amount_of(job.charge.captured_amount) / most:.1%} of the quote)"


def _margin(job: Job) -> str:
    """What the operator keeps; only when the job has ended and all of its cost is known."""
    if not job.HasField("end_time"):
        return ""
    if job.provider_cost.basis == CostBasis.COST_BASIS_UNKNOWN:
        return "unknown, like the provider's cost"
    return dollars_of(amount_of(job.charge.captured_amount) - amount_of(job.provider_cost.amount))


def _tell_cancel(facts: Facts, printer: Printer) -> None:
    job = facts.job
    if not job.HasField("cancel_request_time"):
        return
    printer.heading("Cancel")
    asked = next((e for e in facts.events if e.HasField("cancel_requested")), None)
    closed = next((e for e in facts.events if e.HasField("provider_call_closed")), None)
    who = by_whom(asked.cancel_requested.principal, asked.cancel_requested.reason) if asked else ""
    printer.line(f"asked for at {moment(job.cancel_request_time)} {who}".rstrip())
    if closed is not None:
        after = lasted(job.cancel_request_time, closed.provider_call_closed.close_time)
        printer.line(f"the provider's call was closed {after} later; what it did after that is unknown")
    else:
        printer.line(_not_closed(job))


def _not_closed(job: Job) -> str:
    sent = [attempt for attempt in job.attempts if attempt.HasField("send_time")]
    cut = [a for a in sent if a.outcome == AttemptOutcome.ATTEMPT_OUTCOME_RUNNING]
    if cut:
        return "the provider's call is still open"
    outcomes = ", ".join(outcome_name(attempt.outcome) for attempt in sent)
    return f"no call was open then ({outcomes})" if outcomes else "the provider was never called"


def _ended(job: Job) -> str:
    if not job.HasField("end_time"):
        return ""
    return f"{moment(job.end_time)}, {lasted(job.create_time, job.end_time)} after its create"


def _since(previous: JobEvent | None, event: JobEvent) -> str:
    """How long after the event before it; nothing for what another clock puts at or before that."""
    if previous is None:
        return ""
    seconds = (datetime_of(event.event_time) - datetime_of(previous.event_time)).total_seconds()
    return f"+{span(seconds)}" if seconds > 0 else ""
