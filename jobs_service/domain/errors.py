"""What the service refuses, each with the reason that a caller can switch on."""

from decimal import Decimal


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


class MaxChargeTooLow(Exception):
    """The worst case at the rate card is above what the caller wants to pay at most."""

    reason = "MAX_CHARGE_TOO_LOW"

    def __init__(self, *, max_charge: Decimal, required: Decimal) -> None:
        super().__init__(f"the job may cost {required:f} USD, above max_charge of {max_charge:f} USD")
        self.subject = "spec.max_charge"
        self.metadata = {"max_charge": f"{max_charge:f}", "required": f"{required:f}"}
