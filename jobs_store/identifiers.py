"""Identifiers: time-ordered UUIDs made in the application, and the cursor of the event log."""

from typing import Final, NewType
from uuid import UUID

from uuid_utils.compat import uuid7

TenantId = NewType("TenantId", str)
JobId = NewType("JobId", UUID)
QuoteId = NewType("QuoteId", UUID)
CallId = NewType("CallId", UUID)
RunToken = NewType("RunToken", UUID)
Sequence = NewType("Sequence", int)

EPOCH_BITS: Final = 32
START: Final = Sequence(0)
"""The cursor of a reader that has nothing yet."""


def new_job_id() -> JobId:
    """A UUID version 7 (RFC 9562): ids made later sort later, so that indexes grow at one end."""
    return JobId(uuid7())


def new_quote_id() -> QuoteId:
    """As `new_job_id`, for a quote."""
    return QuoteId(uuid7())


def new_call_id() -> CallId:
    """As `new_job_id`, for a short call."""
    return CallId(uuid7())


def new_audit_id() -> UUID:
    """As `new_job_id`, for a row of the audit log."""
    return uuid7()


def sequence(epoch: int, number: int) -> Sequence:
    """The sequence of the event `number` (from 1) of an epoch (from 1)."""
    return Sequence((epoch << EPOCH_BITS) + number)


def epoch_of(cursor: Sequence) -> int:
    """The epoch that a sequence lies in; 0 for the cursor of a reader that has nothing."""
    return cursor >> EPOCH_BITS


def number_of(cursor: Sequence) -> int:
    """The number inside its epoch; 0 for the cursor of a reader that has nothing."""
    return cursor & ((1 << EPOCH_BITS) - 1)
