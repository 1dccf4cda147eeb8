"""PricingService, as the use cases know it."""

import math
from typing import Final

import grpc

from budget.core import Budget
from budget.errors import UpstreamError
from budget.grpc_client import call
from budget.policy import Policy
from budget.retry import Retries, Try
from hourglass.pricing.v1 import pricing_service_pb2 as pb
from hourglass.pricing.v1.pricing_service_pb2_grpc import PricingServiceStub
from jobs_service.domain.errors import PricingUnavailable, UnknownModel
from jobs_service.domain.pricing import Bounds
from jobs_store.quotes import QuotedModel
from servicekit.identity.outgoing import Outgoing
from servicekit.wire_money import amount_of
from wire.rate_card import rate_card_of

_OUT: Final = frozenset({"UNAVAILABLE", "RESOURCE_EXHAUSTED", "CANCELLED"})
"""What a server that is down, overloaded or about to end answers, or what is answered for it."""


class PricingClient:
    """Asks over one channel; `retries` is shared by all requests, because its token bucket is."""

    def __init__(self, channel: grpc.aio.Channel, retries: Retries, outgoing: Outgoing) -> None:
        self._stub = PricingServiceStub(channel)
        self._outgoing = outgoing
        self._retries = retries

    async def price(
        self, model: str, bounds: Bounds, *, budget: Budget, policy: Policy, retry_attempt: int = 0
    ) -> QuotedModel:
        """See `ports.PriceSource`."""
        request = pb.GetPriceRequest(
            model=model,
            input_token_bound=bounds.input_tokens,
            max_output_token_count=bounds.output_tokens,
        )
        try:
            response = await self._retries.run(
                lambda attempt: self._ask(request, attempt, budget=budget, policy=policy),
                budget=budget,
                policy=policy,
                incoming_attempt=retry_attempt,
            )
        except UpstreamError as error:
            raise _refusal(model, error) from error
        return _quoted(model, response)

    async def _ask(
        self, request: pb.GetPriceRequest, attempt: Try, *, budget: Budget, policy: Policy
    ) -> pb.GetPriceResponse:
        return await call(
            self._stub.GetPrice,
            request,
            budget=budget,
            policy=policy,
            metadata=(*attempt.metadata, *self._outgoing.metadata()),
            attempt=attempt.attempt,
        )


def _refusal(model: str, error: UpstreamError) -> Exception:
    if error.upstream_reason == UnknownModel.reason:
        return UnknownModel(model, error.upstream_metadata.get("nearest", ""))
    if error.code in _OUT:
        pushback = error.pushback
        return PricingUnavailable(None if pushback is None or math.isinf(pushback) else pushback)
    return error


def _quoted(model: str, response: pb.GetPriceResponse) -> QuotedModel:
    return QuotedModel(
        model=model,
        provider=response.provider,
        lane=response.lane,
        price_version=response.price_version,
        amount=amount_of(response.amount),
        provider_amount=amount_of(response.provider_amount),
        rate_card=rate_card_of(response.rate_card),
        provider_rate_card=rate_card_of(response.provider_rate_card),
    )
