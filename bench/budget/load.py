"""`python -m bench.budget.load`: callers, in a process of their own."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import grpc.aio
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from bench.budget.children import answer_parent
from budget.ledger import Outcome, parse_text
from hourglass.pricing.v1.pricing_service_pb2 import GetPriceRequest
from hourglass.pricing.v1.pricing_service_pb2_grpc import PricingServiceStub

if TYPE_CHECKING:
    from hourglass.pricing.v1.pricing_service_pb2_grpc import PricingServiceAsyncStub

Record = tuple[str, float, str, str, float]
"""(model, seconds, code, reason, seconds of them that went well): the reason is ErrorInfo's, or OWN_TEXT when
a server only wrote a text; what went well is what the ledger in the trailers says of its ok spends."""

OWN_TEXT: Final = "OWN_TEXT"
_CORE_TEXT: Final = "Deadline Exceeded"
_MOST_OPEN: Final = 4000


class Callers:
    """Calls one target over one channel."""

    def __init__(self, stub: "PricingServiceAsyncStub", timeout: float) -> None:
        self._stub = stub
        self._timeout = timeout
        self.records: list[Record] = []

    async def call(self, model: str) -> None:
        """One call, recorded."""
        request = GetPriceRequest(model=model, input_token_bound=1, max_output_token_count=1)
        started = time.monotonic()
        code, reason, well = "OK", "", 0.0
        try:
            await self._stub.GetPrice(request, timeout=self._timeout)
        except grpc.aio.AioRpcError as error:
            code, reason, well = error.code().name, _reason_of(error), _went_well(error)
        self.records.append((model, time.monotonic() - started, code, reason, well))

    async def closed(self, models: Sequence[str], seconds: float) -> None:
        """One caller for each model named, each calling again as soon as it was answered."""
        end = time.monotonic() + seconds

        async def again(model: str) -> None:
            while time.monotonic() < end:
                await self.call(model)

        await _all(again(model) for model in models)

    async def even(self, model: str, callers: int, over: float, rounds: int) -> None:
        """`callers` callers that start evenly over so many seconds; each calls `rounds` times."""
        first = time.monotonic()

        async def regularly(number: int) -> None:
            await _until(first + over * number / callers)
            for _ in range(rounds):
                await self.call(model)

        await _all(regularly(number) for number in range(callers))

    async def open(self, model: str, rate: float, seconds: float, seed: int) -> None:
        """Calls that start at random, `rate` a second on average, whatever becomes of those before."""
        source, due = random.Random(seed), time.monotonic()
        end, open_calls = due + seconds, set[asyncio.Task[None]]()
        while (due := due + source.expovariate(rate)) < end:
            await _until(due)
            if len(open_calls) < _MOST_OPEN:
                task = asyncio.create_task(self.call(model))
                open_calls.add(task)
                task.add_done_callback(open_calls.discard)
        if open_calls:
            await asyncio.wait(open_calls)


async def _all(calls: Any) -> None:
    async with asyncio.TaskGroup() as group:
        for call in calls:
            group.create_task(call)


async def _until(instant: float) -> None:
    await asyncio.sleep(max(0.0, instant - time.monotonic()))


def _reason_of(error: grpc.aio.AioRpcError) -> str:
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin" and isinstance(value, bytes):
            info = ErrorInfo()
            for detail in Status.FromString(value).details:
                if detail.Unpack(info):
                    return info.reason
    details = error.details() or ""
    return "" if _CORE_TEXT in details else f"{OWN_TEXT}: {details}"[:100]


def _went_well(error: grpc.aio.AioRpcError) -> float:
    for key, value in error.trailing_metadata() or ():
        if key == "budget-ledger" and isinstance(value, str):
            return sum(spend.took for spend in parse_text(value).spends if spend.outcome is Outcome.OK)
    return 0.0


class Load:
    """What the parent may ask: one pattern at a time; the answer is every call, and how long it all took."""

    def __init__(self) -> None:
        self._channels: dict[str, grpc.aio.Channel] = {}

    async def run(
        self, asked: Mapping[str, Any], pattern: Callable[[Callers], Awaitable[None]]
    ) -> dict[str, Any]:
        """Calls `asked["target"]` in that pattern."""
        callers = Callers(await self._stub(asked["target"]), asked["timeout"])
        started = time.monotonic()
        await pattern(callers)
        return {"seconds": time.monotonic() - started, "records": callers.records}

    async def closed(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        return await self.run(asked, lambda callers: callers.closed(asked["models"], asked["seconds"]))

    async def even(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        return await self.run(
            asked,
            lambda callers: callers.even(asked["model"], asked["callers"], asked["over"], asked["rounds"]),
        )

    async def open(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        return await self.run(
            asked,
            lambda callers: callers.open(asked["model"], asked["rate"], asked["seconds"], asked["seed"]),
        )

    async def _stub(self, target: str) -> "PricingServiceAsyncStub":
        if target not in self._channels:
            self._channels[target] = grpc.aio.insecure_channel(
                target, options=[("grpc.enable_retries", 0), ("grpc.enable_http_proxy", 0)]
            )
            await self._channels[target].channel_ready()
        return PricingServiceStub(self._channels[target])

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close()


async def main() -> None:
    """Calls as asked until the parent leaves."""
    load = Load()
    try:
        await answer_parent({}, {"closed": load.closed, "even": load.even, "open": load.open})
    finally:
        await load.close()


if __name__ == "__main__":
    asyncio.run(main())
