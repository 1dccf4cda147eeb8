"""What the service refuses, each with the reason that a caller can switch on."""

from decimal import Decimal

from jobs_store.rate_card import Usage
from jobs_store.states import ErrorClass


class UnknownModel(Exception):
    """No price list has this model."""

    reason = "UNKNOWN_MODEL"

    def __init__(self, model: str, nearest: str = "") -> None:
        hint = f"; nearest: {nearest}" if nearest else ""
        super().__init__(f"there is no model {model!r}{hint}")
        self.metadata = {"model": model, "nearest": nearest}


class PricingUnavailable(Exception):
    """PricingService cannot be reached, or takes no requests now; nothing was created."""

    reason = "PRICING_UNAVAILABLE"

    def __init__(self, retry_after: float | None = None) -> None:
        super().__init__("no price can be had now; nothing was created")
        self.retry_after = 0.5 if retry_after is None else retry_after


class NewerReleaseNeeded(Exception):
    """What is asked about was written by a newer release; nothing was changed."""

    reason = "NEWER_RELEASE_NEEDED"
    retry_after = 1.0

    def __init__(self, *, hash_version: int) -> None:
        super().__init__("the key was made by a newer release, and this server cannot compare the spec")
        self.metadata = {"hash_version": str(hash_version)}


class MaxChargeTooLow(Exception):
    """The worst case at the rate card is above what the caller wants to pay at most.

    field: its path in the request.
    """

    reason = "MAX_CHARGE_TOO_LOW"

    def __init__(self, *, max_charge: Decimal, required: Decimal, field: str) -> None:
        super().__init__(f"it may cost {required:f} USD, above max_charge of {max_charge:f} USD")
        self.subject = field
        self.metadata = {"max_charge": f"{max_charge:f}", "required": f"{required:f}"}


class UseAJob(Exception):
    """The longest answer is expected to take longer than the caller waits. Times in seconds."""

    reason = "USE_A_JOB"

    def __init__(self, *, estimate: float, time_left: float, output_tokens: int) -> None:
        super().__init__(
            f"{output_tokens} output tokens are expected to take {estimate:.1f} s and {time_left:.1f} s are"
            " left: create a job, or ask for fewer tokens"
        )
        self.subject = "max_output_token_count"
        self.metadata = {"estimate_ms": f"{estimate * 1000:.0f}", "budget_ms": f"{time_left * 1000:.0f}"}


class WorkerRefused(Exception):
    """A worker refused a call: no provider was called."""


class WorkerOverloaded(WorkerRefused):
    """Every slot of the worker for short calls is taken."""

    reason = "OVERLOADED"

    def __init__(self, retry_after: float | None = None) -> None:
        super().__init__("the worker does as many short calls as it may; nothing was started")
        self.retry_after = 0.5 if retry_after is None else retry_after
        self.metadata = {"refusal": "generate_slots"}


class ModelNotRouted(WorkerRefused):
    """The model has a price, but the worker knows no provider for it."""

    reason = "UNKNOWN_MODEL"

    def __init__(self, model: str) -> None:
        super().__init__(f"no provider is configured for model {model!r}")
        self.metadata = {"model": model}


class WorkerUnavailable(Exception):
    """No worker can be reached, or the one that was asked is gone.

    called: whether a provider may have been called by then.
    """

    reason = "WORKER_UNAVAILABLE"

    def __init__(self, *, called: bool, retry_after: float | None = None) -> None:
        super().__init__("the worker broke off" if called else "no worker takes calls now; nothing was sent")
        self.called = called
        self.retry_after = 0.5 if retry_after is None else retry_after
        self.metadata = {"sent": "unknown" if called else "false"}


class ProviderFailed(Exception):
    """The provider of a short call failed.

    sent: False only if no byte of the request left. usage: the tokens that it counted, if it did.
    """

    def __init__(
        self,
        *,
        refused: bool,
        provider: str,
        cause: str,
        error_class: ErrorClass,
        sent: bool,
        provider_request_id: str = "",
        usage: Usage | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{provider}: {cause}")
        self.reason = "PROVIDER_REFUSED" if refused else "PROVIDER_UNAVAILABLE"
        self.cause = cause
        self.error_class = error_class
        self.sent = sent
        self.provider_request_id = provider_request_id
        self.usage = usage
        self.retry_after = retry_after
        self.metadata = {
            "provider": provider,
            "cause": cause,
            "error_class": error_class,
            "sent": "true" if sent else "false",
        }
