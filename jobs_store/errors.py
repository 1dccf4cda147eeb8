"""What the store refuses, each with the reason that a caller can switch on.

The first line of a docstring is the default message. Driver errors become typed in `budget.postgres`.
"""

import math
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import ClassVar
from uuid import UUID


class StoreError(Exception):
    """The store refused."""

    reason: ClassVar[str] = "STORE_ERROR"

    def __init__(
        self, message: str = "", *, subject: str = "", metadata: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message or (self.__doc__ or self.reason).splitlines()[0])
        self.subject = subject
        self.metadata = dict(metadata or {})


class JobNotFound(StoreError):
    """There is no such job."""

    reason = "JOB_NOT_FOUND"

    def __init__(self, job_id: UUID | str) -> None:
        super().__init__(f"There is no job {job_id}.", metadata={"job_id": str(job_id)})


class WrongJobState(StoreError):
    """The job is in another state than the decision is about."""

    def __init__(self, job_id: UUID, state: str) -> None:
        said = (self.__doc__ or "").splitlines()[0]
        super().__init__(
            f"{said} This one is {state}.",
            subject=f"job:{job_id}",
            metadata={"job_id": str(job_id), "state": state},
        )


class JobNotFailed(WrongJobState):
    """Only a FAILED job can be retried."""

    reason = "JOB_NOT_FAILED"


class JobNotHeld(WrongJobState):
    """Only a HELD job can be resolved."""

    reason = "JOB_NOT_HELD"


class JobNotTerminal(WrongJobState):
    """Only the content of a job that has ended can be erased."""

    reason = "JOB_NOT_TERMINAL"


class JobTerminal(WrongJobState):
    """Only a job that has not ended can be cancelled."""

    reason = "JOB_TERMINAL"


class ContentGone(StoreError):
    """What the job asks is not kept any more, so nothing can be sent again."""

    reason = "CONTENT_GONE"

    def __init__(self, job_id: UUID) -> None:
        super().__init__(subject=f"job:{job_id}", metadata={"job_id": str(job_id)})


class CostLimitReached(StoreError):
    """Another attempt could cost more than the job's provider_cost_limit leaves."""

    reason = "PROVIDER_COST_LIMIT"

    def __init__(self, job_id: UUID) -> None:
        super().__init__(subject=f"job:{job_id}", metadata={"job_id": str(job_id)})


class TenantNotFound(StoreError):
    """There is no such tenant."""

    reason = "TENANT_NOT_FOUND"

    def __init__(self, tenant: str) -> None:
        super().__init__(f"There is no tenant {tenant}.", metadata={"tenant_id": tenant})


class ApiKeyNotFound(StoreError):
    """The tenant has no such API key."""

    reason = "API_KEY_NOT_FOUND"

    def __init__(self, key_id: str) -> None:
        super().__init__(metadata={"key_id": key_id})


class LaneNotFound(StoreError):
    """There is no such lane."""

    reason = "LANE_NOT_FOUND"

    def __init__(self, lane: str) -> None:
        super().__init__(f"There is no lane {lane}.", metadata={"lane": lane})


class OverviewNotConfigured(StoreError):
    """This server has no connection that sees all tenants."""

    reason = "OVERVIEW_NOT_CONFIGURED"


class VerifyNotConfigured(StoreError):
    """This server has no read-only connection, which verifying needs."""

    reason = "VERIFY_NOT_CONFIGURED"


class TenantExists(StoreError):
    """The tenant exists already."""

    reason = "TENANT_EXISTS"

    def __init__(self, tenant: str) -> None:
        super().__init__(f"The tenant {tenant} exists already.", metadata={"tenant_id": tenant})


class RequestIdReused(StoreError):
    """The request_id was used for another request."""

    reason = "REQUEST_ID_REUSED"

    def __init__(self, request_id: str) -> None:
        super().__init__(metadata={"request_id": request_id})


class IdempotencyKeyReused(StoreError):
    """The idempotency key was used for another spec."""

    reason = "IDEMPOTENCY_KEY_REUSED"

    def __init__(self, job_id: UUID) -> None:
        super().__init__(
            f"The idempotency key made job {job_id} from another spec: use a new key for a new job.",
            metadata={"job_id": str(job_id)},
        )


class InsufficientFunds(StoreError):
    """The tenant's available funds do not cover the reservation."""

    reason = "INSUFFICIENT_FUNDS"

    def __init__(self, *, tenant: str, required: Decimal, available: Decimal) -> None:
        super().__init__(
            f"{required:f} USD would be set aside and {available:f} USD are available.",
            subject=f"tenant:{tenant}",
            metadata={"required": f"{required:f}", "available": f"{available:f}"},
        )


class LaneClosed(StoreError):
    """The provider route of this model is paused or parked."""

    reason = "LANE_PAUSED"

    def __init__(self, lane: str, *, closed_for: float) -> None:
        super().__init__(f"The lane {lane} takes no calls now.", metadata={"lane": lane})
        self.retry_after = closed_for if math.isfinite(closed_for) else None
        """Seconds; None when nobody knows."""


class QueueFull(StoreError):
    """The tenant has as many jobs in the queue as it may have."""

    reason = "QUEUE_FULL"

    def __init__(self, tenant: str) -> None:
        super().__init__(subject=f"tenant:{tenant}")


class QuoteError(StoreError):
    """The quote cannot be used."""

    def __init__(self, quote_id: UUID, message: str = "") -> None:
        super().__init__(message, subject=f"quote:{quote_id}", metadata={"quote_id": str(quote_id)})


class QuoteNotFound(QuoteError):
    """There is no such quote."""

    reason = "QUOTE_NOT_FOUND"


class QuoteExpired(QuoteError):
    """The quote's time is over: ask for a new one."""

    reason = "QUOTE_EXPIRED"

    @classmethod
    def at(cls, quote_id: UUID, expire_time: datetime) -> "QuoteExpired":
        """The error of a quote that ended at this time."""
        return cls(quote_id, f"The quote ended at {expire_time.isoformat()}: ask for a new one.")


class QuoteUsed(QuoteError):
    """Another job has used the quote."""

    reason = "QUOTE_USED"


class QuoteMismatch(QuoteError):
    """The quote was made for something else."""

    reason = "QUOTE_MISMATCH"


class CursorOutOfRange(StoreError):
    """The cursor lies where the job has no events."""

    reason = "CURSOR_OUT_OF_RANGE"


class FundsTooLow(StoreError):
    """More would be taken out than is available."""

    reason = "FUNDS_TOO_LOW"


class AlreadySettled(StoreError):
    """The money of one of these jobs was settled before the job ended: `verify` names such rows."""

    reason = "INTERNAL"

    def __init__(self, *job_ids: UUID) -> None:
        super().__init__(metadata={"job_ids": " ".join(map(str, job_ids[:10]))})
