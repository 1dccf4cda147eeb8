"""PricingService over gRPC: messages to use cases and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from hourglass.pricing.v1 import pricing_service_pb2 as pb
from hourglass.pricing.v1 import pricing_service_pb2_grpc as pb_grpc
from jobs_store.money import cut
from pricing_service.requests import page_question, page_token, price_question, usage_question
from servicekit.identity.scopes import Scope, needs
from servicekit.methods import MethodPolicy
from servicekit.wire_money import money_of
from wire.rate_card import rate_card_message

if TYPE_CHECKING:
    import grpc

    from jobs_store.rate_card import Breakdown
    from pricing_service.domain import Offer
    from pricing_service.service import PricingService
    from servicekit.server import Server

SERVICE: Final = "hourglass.pricing.v1.PricingService"
METHODS: Final = {
    f"/{SERVICE}/{method}": MethodPolicy(default=0.3, cap=2.0, access=needs(Scope.READ, of_tenant=False))
    for method in ("GetPrice", "ListPrices", "RateUsage")
}
"""The budget of each method, and what it asks of a caller."""


class PricingServicer(pb_grpc.PricingServiceServicer):
    """The methods of the contract."""

    def __init__(self, service: PricingService) -> None:
        self._service = service

    @override
    async def GetPrice(
        self, request: pb.GetPriceRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> pb.GetPriceResponse:
        question = price_question(request)
        price = self._service.get_price(
            question.model,
            input_token_bound=question.input_token_bound,
            max_output_tokens=question.max_output_tokens,
        )
        offer = price.offer
        return pb.GetPriceResponse(
            amount=money_of(price.amount),
            breakdown=_breakdown(price.breakdown),
            rate_card=rate_card_message(offer.tenant_card),
            provider_rate_card=rate_card_message(offer.provider_card),
            provider_amount=money_of(price.provider_amount),
            provider=offer.line.provider,
            lane=offer.line.lane,
            price_version=offer.tenant_card.price_version,
        )

    @override
    async def ListPrices(
        self, request: pb.ListPricesRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> pb.ListPricesResponse:
        question = page_question(request)
        page = self._service.list_prices(
            size=question.size, after=question.after, prefix=question.prefix, version=question.version
        )
        return pb.ListPricesResponse(
            models=[_model_price(offer) for offer in page.offers],
            next_page_token=page_token(
                version=page.price_version, prefix=question.prefix, after=page.last_model
            ),
            price_version=page.price_version,
        )

    @override
    async def RateUsage(
        self, request: pb.RateUsageRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> pb.RateUsageResponse:
        question = usage_question(request)
        charge = self._service.rate_usage(question.model, question.usage, version=question.version)
        return pb.RateUsageResponse(
            amount=money_of(charge.amount),
            breakdown=_breakdown(charge.breakdown),
            provider_amount=money_of(charge.provider_amount),
            price_version=charge.price_version,
        )


def add_to(server: Server, service: PricingService) -> None:
    """Serves PricingService on a server."""
    server.add(SERVICE, pb_grpc.add_PricingServiceServicer_to_server, PricingServicer(service))


def _model_price(offer: Offer) -> pb.ModelPrice:
    return pb.ModelPrice(
        model=offer.line.model,
        provider=offer.line.provider,
        lane=offer.line.lane,
        rate_card=rate_card_message(offer.tenant_card),
    )


def _breakdown(parts: Breakdown) -> pb.PriceBreakdown:
    return pb.PriceBreakdown(
        input_amount=money_of(cut(parts.all_input)),
        output_amount=money_of(cut(parts.output)),
        request_amount=money_of(cut(parts.per_request)),
    )
