"""The receipt of a job: attempts, money, and where the time of its create call went."""

from google.type.money_pb2 import Money
from rich.table import Table

from hourglass.budget.v1.ledger_pb2 import BudgetLedger
from hourglass.jobs.v1.job_pb2 import Attempt, AttemptOutcome, CostBasis, FinishReason, Job
from hourglass.jobs.v1.jobs_service_pb2 import QuoteLine, QuoteLineStatus, WorkerLoad
from launcher.demo.terminal import Terminal
from presentation.ledger_table import ledger_lines
from presentation.values import between, dollars
from servicekit.wire_money import amount_of


def load(workers: WorkerLoad) -> str:
    """How busy the workers are, or why nobody looked."""
    if workers.status != QuoteLineStatus.QUOTE_LINE_STATUS_OK:
        return f"nobody looked at their load: {workers.reason or 'no answer'}"
    return f"{workers.free_slot_count} of {workers.slot_count} slots are free"


def show_result(terminal: Terminal, job: Job) -> None:
    """How the answer ended."""
    usage = job.result.usage
    finish = FinishReason.Name(job.result.finish_reason).removeprefix("FINISH_REASON_")
    terminal.fact("state", f"{job.state_cause}, finish reason {finish}")
    terminal.fact("tokens", f"{usage.input_token_count} in, {usage.output_token_count} out")


def attempts_table(job: Job) -> Table:
    """One line an attempt."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("attempt", "worker", "outcome", "queued", "first token", "took", "provider cost"):
        table.add_column(column, justify="right" if column != "worker" else "left")
    for attempt in job.attempts:
        table.add_row(*_attempt_cells(job, attempt))
    return table


def money_table(line: QuoteLine, job: Job) -> Table:
    """What was quoted, set aside and paid, and what the provider charges the operator."""
    charge, cost = job.charge, job.provider_cost
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="cyan")
    table.add_column(justify="right")
    table.add_column(style="dim")
    released = sum((amount_of(r.released_amount) for r in charge.reservations), start=amount_of(Money()))
    table.add_row("quoted", dollars(line.amount), "at most; reserved with the create")
    table.add_row("charged", dollars(charge.captured_amount), "for the tokens used, at the quoted rates")
    table.add_row("given back", f"${released:.9f}", "")
    table.add_row(
        "provider cost", dollars(cost.amount), f"the operator's, {_name(CostBasis.Name(cost.basis)).lower()}"
    )
    if amount_of(cost.unknown_worst_case_amount):
        at_most = dollars(cost.unknown_worst_case_amount)
        table.add_row("and at most", at_most, "the operator's, for the attempt that nobody knows the end of")
    return table


def show_waterfall(terminal: Terminal, ledger: BudgetLedger) -> None:
    """The ledger as bars over the time of the request."""
    for line in ledger_lines(ledger, width=terminal.out.width, unicode=terminal.unicode):
        terminal.show(line)


def _attempt_cells(job: Job, attempt: Attempt) -> list[str]:
    return [
        str(attempt.number),
        attempt.worker_id,
        _name(AttemptOutcome.Name(attempt.outcome)),
        between(job.create_time, attempt.claim_time),
        between(attempt.send_time, attempt.first_token_time),
        between(attempt.claim_time, attempt.end_time),
        dollars(attempt.provider_cost.amount),
    ]


def _name(value: str) -> str:
    for prefix in ("ATTEMPT_OUTCOME_", "COST_BASIS_"):
        value = value.removeprefix(prefix)
    return value
