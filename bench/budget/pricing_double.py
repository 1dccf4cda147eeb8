"""`python -m bench.budget.pricing_double`: a PricingService that answers at once, never, or with a fixed
capacity, by the name of the model.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import grpc.aio
from typing_extensions import override

from bench.budget.children import answer_parent
from bench.budget.models import HUNG, SLOTTED, TURNED
from bench.budget.servicer import GetPriceOnly
from hourglass.pricing.v1 import pricing_service_pb2 as pb
from hourglass.pricing.v1 import pricing_service_pb2_grpc as pb_grpc

SLOTS: Final = 8
SERVICE_TIME: Final = 0.02


class PricingDouble(GetPriceOnly):
    """`TURNED` models answer, or hang once they are told to; `SLOTTED` ones share SLOTS places."""

    def __init__(self) -> None:
        self.turned_off = False
        self.in_flight = 0
        self._slots = asyncio.Semaphore(SLOTS)

    @override
    async def GetPrice(
        self,
        request: pb.GetPriceRequest,
        context: grpc.aio.ServicerContext[pb.GetPriceRequest, pb.GetPriceResponse],
    ) -> pb.GetPriceResponse:
        self.in_flight += 1
        try:
            await self._serve(request.model)
        finally:
            self.in_flight -= 1
        return pb.GetPriceResponse(provider="double", lane=request.model, price_version="1")

    async def _serve(self, model: str) -> None:
        if model == HUNG or (model == TURNED and self.turned_off):
            await asyncio.Event().wait()
        if model == SLOTTED:
            async with self._slots:
                await asyncio.sleep(SERVICE_TIME)

    async def turn(self, asked: Mapping[str, Any]) -> None:
        """Hangs all `TURNED` calls from now on, or none."""
        self.turned_off = asked["off"]


async def main() -> None:
    """Serves until the parent leaves."""
    double = PricingDouble()
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    pb_grpc.add_PricingServiceServicer_to_server(double, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        await answer_parent({"target": f"127.0.0.1:{port}"}, {"turn": double.turn})
    finally:
        await server.stop(0)


if __name__ == "__main__":
    asyncio.run(main())
