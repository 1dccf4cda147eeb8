"""Waiting on in a line that moves: for a connection, or for a tenant's funds, the row that all writers need.

A statement's limit is meant for a database that does not answer. A burst of writers on one tenant is
something else: the line moves, and a caller with time left need not be sent away. So a try that left nothing
behind may be made again, once for each one that went through: when nothing moves, nobody waits on.
"""

from typing import Final

from budget.errors import DatabaseConflict, DatabaseTimeout
from budget.retry import Retries, TokenBucket

LONGEST_CREDIT: Final = 100.0
"""Tries that may be made again at most, however many went through before."""


def moving_line() -> Retries:
    """One for all calls of a kind in a process."""
    return Retries(bucket=TokenBucket(capacity=LONGEST_CREDIT, refill=1.0, tokens=0.0))


def left_nothing(error: Exception) -> bool:
    """Whether a transaction that ended so certainly changed nothing: its COMMIT was not sent."""
    return isinstance(error, DatabaseTimeout | DatabaseConflict)
