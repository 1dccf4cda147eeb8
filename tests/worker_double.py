"""A worker whose streams do what a test tells them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import grpc
from grpc import StatusCode

from hourglass.worker.v1 import worker_service_pb2 as worker_pb
from hourglass.worker.v1 import worker_service_pb2_grpc as worker_grpc
from jobs_store.events import Event
from wire.events import event_message

END: Final = object()
"""Given to a stream: it ends."""


@dataclass(slots=True)
class WorkerDouble(worker_grpc.WorkerServiceServicer):
    """Streams what it is given; NOT_OWNER for everything else."""

    streams: list["Stream"] = field(default_factory=list)
    given: dict[str, list[Event | object]] = field(default_factory=dict)
    refused: int = 0
    looks: int = 0

    async def StreamProgress(  # noqa: N802
        self, request: worker_pb.StreamProgressRequest, context: Any
    ) -> AsyncIterator[worker_pb.StreamProgressResponse]:
        if request.job_id not in self.given:
            self.refused += 1
            await context.abort(StatusCode.FAILED_PRECONDITION, "not mine")
        stream = Stream(request.after_sequence)
        self.streams.append(stream)
        for item in self.given[request.job_id]:
            stream.items.put_nowait(item)
        try:
            while (item := await stream.items.get()) is not END:
                assert isinstance(item, Event)
                if item.sequence > request.after_sequence:
                    yield worker_pb.StreamProgressResponse(event=event_message(item))
        finally:
            stream.closed = True

    def Generate(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        raise NotImplementedError

    async def GetWorkerStatus(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.looks += 1
        return worker_pb.GetWorkerStatusResponse(slot_count=4, free_slot_count=3)

    async def Drain(self, request: Any, context: Any) -> Any:  # noqa: N802
        raise NotImplementedError


@dataclass(slots=True)
class Stream:
    """One reader of a worker double."""

    after: int
    items: asyncio.Queue[Event | object] = field(default_factory=asyncio.Queue)
    closed: bool = False


@asynccontextmanager
async def worker_double() -> AsyncIterator[tuple[WorkerDouble, str]]:
    """A running double, and its address."""
    servicer = WorkerDouble()
    server = grpc.aio.server()
    worker_grpc.add_WorkerServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield servicer, f"127.0.0.1:{port}"
    finally:
        await server.stop(0)
