"""The other side: a gRPC server that streams ready bytes, as fast as they are read."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import grpc.aio

from bench.budget.children import answer_parent
from servicekit.channels import server_options
from servicekit.settings import ServerSettings

SERVICE: Final = "bench.Plain"
METHOD: Final = "Stream"


async def stream(request: bytes, context: "grpc.aio.ServicerContext[bytes, bytes]") -> None:
    """The request says how many bytes each message has."""
    message = b"x" * int(request)
    while True:
        await context.write(message)


async def main() -> None:
    """Serves until its parent ends."""
    server = grpc.aio.server(options=server_options(ServerSettings(max_concurrent_streams=10_000)))
    handler: Any = grpc.unary_stream_rpc_method_handler(stream)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()

    async def nothing(_asked: Mapping[str, Any]) -> None:
        return None

    await answer_parent({"target": f"127.0.0.1:{port}"}, {"nothing": nothing})
    await server.stop(0)


if __name__ == "__main__":
    asyncio.run(main())
