"""A PricingService that fails as it is told, in front of a real one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from grpc import StatusCode

from hourglass.pricing.v1 import pricing_service_pb2 as pb
from hourglass.pricing.v1 import pricing_service_pb2_grpc as pb_grpc
from tests.jobs import pricing_server


@dataclass(slots=True)
class PricingDouble(pb_grpc.PricingServiceServicer):
    """Passes calls on to a real PricingService, unless told otherwise.

    hung: models that are never answered; "*" is every model. down: every call is refused at once.
    failing_after: seconds after which the next calls fail, one each, before calls are passed on again.
    """

    real: Any
    hung: set[str] = field(default_factory=set)
    down: bool = False
    failing_after: list[float] = field(default_factory=list)
    cancelled: int = 0
    calls: int = 0

    async def GetPrice(self, request: pb.GetPriceRequest, context: Any) -> Any:  # noqa: N802
        self.calls += 1
        if self.down:
            await context.abort(StatusCode.UNAVAILABLE, "down")
        if self.failing_after:
            await asyncio.sleep(self.failing_after.pop(0))
            await context.abort(StatusCode.UNAVAILABLE, "down for a moment")
        if request.model in self.hung or "*" in self.hung:
            await self._hang()
        try:
            return await self.real.GetPrice(request)
        except grpc.aio.AioRpcError as error:
            await context.abort(error.code(), error.details() or "", tuple(error.trailing_metadata() or ()))

    async def _hang(self) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise

    async def ListPrices(self, request: Any, context: Any) -> Any:  # noqa: N802
        raise NotImplementedError

    async def RateUsage(self, request: Any, context: Any) -> Any:  # noqa: N802
        raise NotImplementedError


@asynccontextmanager
async def pricing_double() -> AsyncIterator[tuple[PricingDouble, str]]:
    """A running double, and its address."""
    async with pricing_server() as address, grpc.aio.insecure_channel(address) as channel:
        servicer = PricingDouble(pb_grpc.PricingServiceStub(channel))
        server = grpc.aio.server()
        pb_grpc.add_PricingServiceServicer_to_server(servicer, server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        yield servicer, f"127.0.0.1:{port}"
        await server.stop(0)
