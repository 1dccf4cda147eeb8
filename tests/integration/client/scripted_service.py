"""A JobService that does what the test says, over a socket, and notes what it is asked."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc

from hourglass.jobs.v1 import jobs_service_pb2 as pb
from hourglass_client import AsyncClient, Terms
from tests.unit.client.played_server import refusal

Context = grpc.aio.ServicerContext[Any, Any]
Behaviour = Callable[[Any, Context], Awaitable[Any]]


class ScriptedService:
    """Each call takes the next behaviour; the last one stays."""

    def __init__(self, *behaviours: Behaviour) -> None:
        self.requests: list[Any] = []
        self.metadata: list[dict[str, Any]] = []
        self.remaining: list[float | None] = []
        self.cancelled = asyncio.Event()
        self._behaviours = list(behaviours)

    async def call(self, request: Any, context: Context) -> Any:
        """Any method."""
        self.requests.append(request)
        self.metadata.append(dict(context.invocation_metadata() or ()))
        self.remaining.append(context.time_remaining())
        behaviour = self._behaviours.pop(0) if len(self._behaviours) > 1 else self._behaviours[0]
        try:
            return await behaviour(request, context)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


def answers(response: Any) -> Behaviour:
    async def behave(_request: Any, _context: Context) -> Any:
        return response

    return behave


def fails(code: grpc.StatusCode, reason: str = "", **told: Any) -> Behaviour:
    async def behave(_request: Any, context: Context) -> Any:
        trailers = refusal(reason, **told) if reason else ()
        await context.abort(code, "no", trailing_metadata=trailers)

    return behave


async def hangs(_request: Any, _context: Context) -> Any:
    await asyncio.Event().wait()


@asynccontextmanager
async def scripted(service: ScriptedService, **terms: Any) -> AsyncIterator[AsyncClient]:
    """A client of that service."""
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    handlers: dict[str, Any] = {
        method.name: (
            grpc.unary_stream_rpc_method_handler
            if method.server_streaming
            else grpc.unary_unary_rpc_method_handler
        )(
            service.call,
            request_deserializer=getattr(pb, method.input_type.name).FromString,
            response_serializer=lambda response: response.SerializeToString(),
        )
        for method in pb.DESCRIPTOR.services_by_name["JobService"].methods
    }
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler("hourglass.jobs.v1.JobService", handlers)]
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with AsyncClient.connect(f"127.0.0.1:{port}", terms=Terms(**terms)) as client:
            yield client
    finally:
        await server.stop(None)
