"""The budget ledger as it leaves a server: the trailers `budget-ledger` and `budget-ledger-bin`."""

import math
from typing import Final

from google.protobuf.duration_pb2 import Duration

from budget.core import Budget
from budget.ledger import Outcome, Spend, parse_text
from hourglass.budget.v1.ledger_pb2 import BudgetEnding, BudgetLedger, BudgetSpend, SpendOutcome
from servicekit.endings import Ending

TEXT_TRAILER: Final = "budget-ledger"
BINARY_TRAILER: Final = "budget-ledger-bin"
MAX_BYTES: Final = 1024
_ENDINGS: Final = {ending: BudgetEnding.Value(f"BUDGET_ENDING_{ending.name}") for ending in Ending}
_OUTCOMES: Final = {outcome: SpendOutcome.Value(f"SPEND_OUTCOME_{outcome.name}") for outcome in Outcome}


def ledger_trailers(
    budget: Budget, *, method: str, took: float, ending: Ending
) -> tuple[tuple[str, str | bytes], ...]:
    """Both trailers, each at most MAX_BYTES. Names and numbers only."""
    message = ledger_message(budget, method=method, took=took, ending=ending)
    return (
        (TEXT_TRAILER, budget.ledger.as_text(MAX_BYTES)),
        (BINARY_TRAILER, message.SerializeToString()),
    )


def ledger_message(
    budget: Budget, *, method: str, took: float, ending: Ending, max_bytes: int = MAX_BYTES
) -> BudgetLedger:
    """The BudgetLedger of a request. Where not all fits, the quickest successful spends are left out."""
    message = BudgetLedger(method=method.removeprefix("/"), ending=_ENDINGS[ending])
    _set(message.reserve_duration, budget.reserve)
    _set(message.took_duration, took)
    _set(message.initial_duration, budget.initial)
    began = _began(budget)
    messages = [_spend(spend, began=began) for spend in budget.ledger.spends]
    kept = _fitting(budget.ledger.spends, messages, max_bytes - message.ByteSize() - 12)
    message.spends.extend(kept)
    message.omitted_count = sum(total.count for total in budget.ledger.totals) - len(kept)
    return message


def ledger_message_of_text(text: str, *, method: str) -> BudgetLedger:
    """The BudgetLedger of a ledger that was kept as text: its spends. ValueError when it is none."""
    parsed = parse_text(text)
    return BudgetLedger(method=method, spends=map(_spend, parsed.spends), omitted_count=parsed.cut)


def _began(budget: Budget) -> float | None:
    """The instant at which the budget was made; None for one without an end."""
    return None if budget.unbounded else budget.deadline - budget.initial


def _fitting(spends: tuple[Spend, ...], messages: list[BudgetSpend], room: int) -> list[BudgetSpend]:
    """The spends that fit into `room` bytes, in their order: troubles first, then by cost."""
    sizes = [message.ByteSize() + 3 for message in messages]  # tag and length
    if sum(sizes) <= room:
        return messages
    kept = set()
    for index in sorted(range(len(spends)), key=lambda i: _rank(spends[i])):
        room -= sizes[index]
        if room < 0:
            break
        kept.add(index)
    return [message for index, message in enumerate(messages) if index in kept]


def _rank(spend: Spend) -> tuple[bool, float]:
    smooth = spend.outcome is Outcome.OK and not spend.would_cut
    return smooth, -spend.took


def _spend(spend: Spend, *, began: float | None = None) -> BudgetSpend:
    message = BudgetSpend(
        dependency=spend.dependency,
        method=spend.method,
        outcome=_OUTCOMES[spend.outcome],
        attempt=spend.attempt,
        reason=spend.reason[:60],
        would_cut=spend.would_cut,
    )
    _set(message.took_duration, spend.took)
    _set(message.remaining_duration, spend.remaining)
    _set(message.limit_duration, spend.limit)
    if began is not None and spend.started is not None:
        _set(message.start_duration, max(0.0, spend.started - began))
    return message


def _set(field: Duration, seconds: float) -> None:
    """Leaves the field unset for a time without an end."""
    if math.isinf(seconds):
        return
    # In place and by its own method: eleven Durations a request are most of the message's cost.
    field.FromNanoseconds(round(seconds * 1_000_000_000))
