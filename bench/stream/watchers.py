"""The callers: streams on a few connections, read as fast as they come, and what was seen of them."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

import grpc.aio

from bench.budget.children import answer_parent
from bench.stream.plain import METHOD, SERVICE
from hourglass.jobs.v1.jobs_service_pb2 import WatchJobRequest, WatchJobResponse
from servicekit.channels import client_options
from tests.waiting import eventually

WATCH: Final = "/hourglass.jobs.v1.JobService/WatchJob"
READ_EVERY: Final = 8
"""Messages of which one is read, for its latency: what parsing costs the callers is not what is measured."""
CONNECTIONS: Final = 4
BEGINNING: Final = 32
"""Streams that begin at the same time: a storm of them is not what is measured."""
_ATTACHED_LIMIT: Final = 60.0
_RETRY: Final = 0.2
_TRIES: Final = 20

Take = Callable[[Any], None]


class Watchers:
    """Streams that are open, and what came since `count` began."""

    def __init__(self) -> None:
        self._channels: list[grpc.aio.Channel] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._attached = 0
        self._received = 0
        self._sizes = 0
        self._latencies: list[float] = []
        self._refusals: list[str] = []
        self._beginning = asyncio.Semaphore(BEGINNING)

    async def attach(self, asked: Mapping[str, Any]) -> int:
        """Watches each job so often; answers once every stream has shown its first message."""
        self._connect(asked["target"])
        for job_id in asked["jobs"]:
            for _ in range(asked["each"]):
                request = WatchJobRequest(job_id=job_id, after_sequence=asked.get("after", 0))
                metadata = (("x-tenant-id", asked["tenant"]), ("x-user-id", "bench"))
                channel = self._channels[len(self._tasks) % len(self._channels)]
                method: Any = channel.unary_stream(WATCH)
                call = partial(method, request.SerializeToString(), metadata=metadata)
                self._tasks.append(asyncio.create_task(self._read(call, self._take)))
        return await self._all_attached()

    async def attach_plain(self, asked: Mapping[str, Any]) -> int:
        """Reads so many streams of the plain server."""
        self._connect(asked["target"])
        for number in range(asked["streams"]):
            method: Any = self._channels[number % len(self._channels)].unary_stream(f"/{SERVICE}/{METHOD}")
            call = partial(method, str(asked["size"]).encode())
            self._tasks.append(asyncio.create_task(self._read(call, self._take_plain)))
        return await self._all_attached()

    async def count(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """What comes in so many seconds: how many messages, their latencies and their mean size."""
        self._received, self._sizes, self._latencies = 0, 0, []
        started = time.monotonic()
        await asyncio.sleep(asked["seconds"])
        took = time.monotonic() - started
        ended = sum(task.done() for task in self._tasks)
        return {
            "messages": self._received,
            "seconds": took,
            "size": self._sizes / max(1, self._received),
            "latencies": self._latencies,
            "ended": ended,
            "refusals": Counter(self._refusals),
        }

    async def received(self, _asked: Mapping[str, Any]) -> tuple[int, int]:
        """How many messages came since the last count began, and their bytes."""
        return self._received, self._sizes

    async def leave(self, _asked: Mapping[str, Any]) -> None:
        """Ends every stream and connection."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        for channel in self._channels:
            await channel.close()
        self._tasks, self._channels, self._refusals, self._attached = [], [], [], 0

    def _connect(self, target: str) -> None:
        options = [*client_options(), ("grpc.use_local_subchannel_pool", 1)]
        self._channels = [grpc.aio.insecure_channel(target, options=options) for _ in range(CONNECTIONS)]

    async def _all_attached(self) -> int:
        with suppress(AssertionError):
            await eventually(lambda: self._attached == len(self._tasks), within=_ATTACHED_LIMIT)
        return self._attached

    async def _read(self, begin: Callable[[], Any], take: Take) -> None:
        async with self._beginning:
            call = await self._begun(begin, take)
        self._attached += 1
        try:
            while (message := await call.read()) is not grpc.aio.EOF:
                take(message)
        finally:
            call.cancel()

    async def _begun(self, begin: Callable[[], Any], take: Take) -> Any:
        """A stream that has shown its first message; one that was refused is tried again, as callers do."""
        for _ in range(_TRIES):
            call = begin()
            try:
                take(await call.read())
            except grpc.aio.AioRpcError as error:
                self._refusals.append(error.details() or "")
                await asyncio.sleep(_RETRY)
            else:
                return call
        raise AssertionError(f"no stream came up: {self._refusals[-1]}")

    def _take(self, message: bytes) -> None:
        self._take_plain(message)
        if self._received % READ_EVERY == 0:
            self._look_at(WatchJobResponse.FromString(message))

    def _look_at(self, message: WatchJobResponse) -> None:
        if message.event.HasField("token_delta"):
            sent = message.event.event_time
            self._latencies.append(time.time() - sent.seconds - sent.nanos / 1e9)

    def _take_plain(self, message: bytes) -> None:
        self._received += 1
        self._sizes += len(message)


async def main() -> None:
    """Watches what its parent asks for."""
    watchers = Watchers()
    commands: dict[str, Callable[[Mapping[str, Any]], Awaitable[Any]]] = {
        "attach": watchers.attach,
        "attach_plain": watchers.attach_plain,
        "count": watchers.count,
        "received": watchers.received,
        "leave": watchers.leave,
    }
    await answer_parent({}, commands)


if __name__ == "__main__":
    asyncio.run(main())
