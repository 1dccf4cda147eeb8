"""What the worker refuses, each with the reason that a caller can switch on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from worker.providers.errors import Cause, ErrorClass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobs_store.identifiers import JobId
    from jobs_store.rate_card import Usage
    from worker.providers.errors import ProviderError

_OURS: Final = frozenset({Cause.BUDGET_EXHAUSTED, Cause.BUDGET_TOO_LOW})


class NotOwner(Exception):
    """The worker does not run that job, or not any more."""

    reason = "NOT_OWNER"

    def __init__(self, job_id: JobId) -> None:
        self.metadata = {"job_id": str(job_id)}
        super().__init__(f"this worker does not run job {job_id} now")


class ReRead(Exception):
    """What follows the cursor is not held any more, or the reader was too slow."""

    reason = "RE_READ"

    def __init__(self, job_id: JobId) -> None:
        self.metadata = {"job_id": str(job_id)}
        super().__init__(f"read the events of job {job_id} from the store, then come back")


class NoFreeSlot(Exception):
    """The worker does as many short calls as it may."""

    reason = "OVERLOADED"
    retry_after = 0.5

    def __init__(self, slots: int) -> None:
        self.metadata = {"refusal": "generate_slots"}
        super().__init__(f"all {slots} slots for short calls are taken; nothing was started")


class ProviderFailed(Exception):
    """The provider of a short call failed: who, why, and whether the request had left, for the accounts.

    `metadata` has `sent`, `false` only if no byte of the request left, and the tokens that were counted.
    """

    def __init__(self, error: ProviderError) -> None:
        self.reason = _reason(error)
        self.retry_after = error.retry_after
        self.metadata: Mapping[str, str] = {
            "provider": error.provider,
            "cause": error.cause,
            "error_class": error.error_class,
            "sent": "true" if error.sent else "false",
            "provider_request_id": error.provider_request_id,
            **_tokens(error.usage),
        }
        super().__init__(str(error))


def _reason(error: ProviderError) -> str:
    if error.cause in _OURS:
        return error.cause
    return "PROVIDER_REFUSED" if error.error_class is ErrorClass.PERMANENT else "PROVIDER_UNAVAILABLE"


def _tokens(usage: Usage | None) -> Mapping[str, str]:
    if usage is None:
        return {}
    return {
        "input_token_count": str(usage.input_tokens),
        "cached_input_token_count": str(usage.cached_input_tokens),
        "output_token_count": str(usage.output_tokens),
    }
