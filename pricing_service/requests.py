"""Requests of the price service, checked: every violation of a request at once. Messages stop here."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jobs_store.rate_card import MAX_TOKENS, Usage
from servicekit.errors import FieldViolation, InvalidRequest

if TYPE_CHECKING:
    from hourglass.pricing.v1 import pricing_service_pb2 as pb

LONGEST_MODEL_NAME: Final = 256
LONGEST_PRICE_VERSION: Final = 128
DEFAULT_PAGE_SIZE: Final = 100
LARGEST_PAGE_SIZE: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceQuestion:
    """GetPrice, checked."""

    model: str
    input_token_bound: int
    max_output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PageQuestion:
    """ListPrices, checked. `version` and `after` come from the page token and are empty on the first page."""

    size: int
    prefix: str
    version: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageQuestion:
    """RateUsage, checked."""

    model: str
    usage: Usage
    version: str


def price_question(request: pb.GetPriceRequest) -> PriceQuestion:
    """Raises InvalidRequest."""
    faults = Faults()
    faults.check_model(request.model)
    faults.check_count(request, "input_token_bound", lowest=0)
    faults.check_count(request, "max_output_token_count", lowest=1)
    faults.raise_if_any()
    return PriceQuestion(
        model=request.model,
        input_token_bound=request.input_token_bound,
        max_output_tokens=request.max_output_token_count,
    )


def usage_question(request: pb.RateUsageRequest) -> UsageQuestion:
    """Raises InvalidRequest."""
    faults = Faults()
    faults.check_model(request.model)
    faults.check_count(request, "input_token_count", lowest=0)
    faults.check_count(request, "output_token_count", lowest=0)
    if request.HasField("cached_input_token_count"):
        faults.check_count(request, "cached_input_token_count", lowest=0)
        if request.cached_input_token_count > request.input_token_count:
            faults.add("cached_input_token_count", "must not exceed input_token_count")
    faults.check_length("price_version", request.price_version, LONGEST_PRICE_VERSION)
    faults.raise_if_any()
    usage = Usage(
        input_tokens=request.input_token_count,
        cached_input_tokens=request.cached_input_token_count,
        output_tokens=request.output_token_count,
    )
    return UsageQuestion(model=request.model, usage=usage, version=request.price_version)


def page_question(request: pb.ListPricesRequest) -> PageQuestion:
    """Raises InvalidRequest."""
    faults = Faults()
    if request.page_size < 0:
        faults.add("page_size", "must not be negative")
    faults.check_length("model_prefix", request.model_prefix, LONGEST_MODEL_NAME)
    version, prefix, after = "", request.model_prefix, ""
    if request.page_token:
        try:
            version, prefix, after = _opened(request.page_token)
        except (ValueError, RecursionError):
            faults.add("page_token", "was not made by this method")
        else:
            if prefix != request.model_prefix:
                faults.add("model_prefix", "must be the one of the first page")
    faults.raise_if_any()
    size = min(request.page_size or DEFAULT_PAGE_SIZE, LARGEST_PAGE_SIZE)
    return PageQuestion(size=size, prefix=prefix, version=version, after=after)


def page_token(*, version: str, prefix: str, after: str) -> str:
    """An opaque token (AIP-158) for the page after the model `after`; empty if there is none."""
    if not after:
        return ""
    return base64.urlsafe_b64encode(json.dumps([version, prefix, after]).encode()).decode()


def _opened(token: str) -> tuple[str, str, str]:
    match json.loads(base64.b64decode(token, b"-_", validate=True)):
        case [str(version), str(prefix), str(after)]:
            return version, prefix, after
        case _:
            raise ValueError("malformed")


class Faults:
    """What is wrong with a request, collected."""

    def __init__(self) -> None:
        self._violations: list[FieldViolation] = []

    def add(self, field: str, description: str) -> None:
        """One more violation."""
        self._violations.append(FieldViolation(field, description))

    def check_model(self, model: str) -> None:
        """A model name is required."""
        if not model:
            self.add("model", "is required")
        self.check_length("model", model, LONGEST_MODEL_NAME)

    def check_length(self, field: str, text: str, longest: int) -> None:
        """At most so many characters."""
        if len(text) > longest:
            self.add(field, f"must have at most {longest} characters, has {len(text)}")

    def check_count(
        self, request: pb.GetPriceRequest | pb.RateUsageRequest, field: str, *, lowest: int
    ) -> None:
        """A number of tokens is required, within bounds."""
        if not request.HasField(field):  # type: ignore[arg-type]  # the stub wants a literal name
            self.add(field, "is required")
        elif not lowest <= getattr(request, field) <= MAX_TOKENS:
            self.add(field, f"must be {lowest} to {MAX_TOKENS}, is {getattr(request, field)}")

    def raise_if_any(self) -> None:
        """Raises InvalidRequest with everything that was added."""
        if self._violations:
            raise InvalidRequest(*self._violations)
