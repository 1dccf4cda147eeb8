"""PricingService with GetPrice alone: what is measured is one method."""

from typing import Any, Never

import grpc.aio
from typing_extensions import override

from hourglass.pricing.v1 import pricing_service_pb2_grpc as pb_grpc

AnyContext = grpc.aio.ServicerContext[Any, Any]


class GetPriceOnly(pb_grpc.PricingServiceServicer):
    """Refuses the other methods."""

    @override
    async def ListPrices(self, request: Any, context: AnyContext) -> Never:
        await context.abort(grpc.StatusCode.UNIMPLEMENTED)

    @override
    async def RateUsage(self, request: Any, context: AnyContext) -> Never:
        await context.abort(grpc.StatusCode.UNIMPLEMENTED)
