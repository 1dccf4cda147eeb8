"""Budget ledgers for tests."""

from hourglass.budget.v1.ledger_pb2 import BudgetLedger, BudgetSpend, SpendOutcome
from servicekit.wire_time import duration_of


def spend(
    method: str, *, remaining: float, took: float, outcome: str = "OK", attempt: int = 1, reason: str = ""
) -> BudgetSpend:
    """One spend of Postgres; times in seconds."""
    return BudgetSpend(
        dependency="postgres",
        method=method,
        remaining_duration=duration_of(remaining),
        limit_duration=duration_of(0.4),
        took_duration=duration_of(took),
        outcome=SpendOutcome.Value(f"SPEND_OUTCOME_{outcome}"),
        attempt=attempt,
        reason=reason,
    )


def ledger(*spends: BudgetSpend, took: float = 0.1) -> BudgetLedger:
    """The ledger of a CreateJob with 2 s, 200 ms of them in reserve."""
    return BudgetLedger(
        method="hourglass.jobs.v1.JobService/CreateJob",
        initial_duration=duration_of(2.0),
        reserve_duration=duration_of(0.2),
        took_duration=duration_of(took),
        spends=spends,
    )
