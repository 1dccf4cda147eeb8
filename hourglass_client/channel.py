"""How the client is connected."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from budget.grpc_client import CHANNEL_OPTIONS
from hourglass.budget.v1.ledger_pb2 import BudgetLedger

Options = Sequence[tuple[str, Any]]

OnLedger = Callable[[str, BudgetLedger], None]
"""Takes the method of each answer, good or bad, and how the server spent its time."""

LARGEST_ANSWER: Final = 8 * 1024 * 1024
DEFAULT_OPTIONS: Final[Options] = (
    *CHANNEL_OPTIONS,
    ("grpc.max_receive_message_length", LARGEST_ANSWER),
)
"""Keepalive that the services allow, quick reconnects, no retries beneath ours, no proxy from outside."""


def ignored(_method: str, _ledger: BudgetLedger) -> None:
    """For callers who do not ask where the time went."""
