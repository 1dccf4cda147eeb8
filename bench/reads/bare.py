"""The other side: GetJob as a bare gRPC handler, one SELECT by key from a pool of the tables' owner.

It reads the same columns and answers the same message, without budgets, tenants' policies, spans, logs.
"""

import argparse
import asyncio
import time
from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

import asyncpg
import grpc.aio

from bench.budget.children import answer_parent
from hourglass.jobs.v1 import jobs_service_pb2 as pb
from jobs_store.identifiers import JobId
from jobs_store.reading import detail_of
from jobs_store.statements import statement
from servicekit.channels import server_options
from servicekit.lifecycle import collect_rarely
from servicekit.settings import ServerSettings
from wire.job import job_detail_message

SERVICE: Final = "hourglass.jobs.v1.JobService"
SIZE: Final = 8


class BareHandler:
    """What a user would write by hand."""

    def __init__(self, pool: "asyncpg.Pool[asyncpg.Record]") -> None:
        self._pool = pool

    async def get_job(
        self, request: pb.GetJobRequest, context: "grpc.aio.ServicerContext[Any, Any]"
    ) -> pb.GetJobResponse:
        """One SELECT by tenant and id."""
        tenant = dict(context.invocation_metadata() or ())["x-tenant-id"]
        row = await self._pool.fetchrow(statement("read_job"), tenant, JobId(UUID(request.job_id)))
        if row is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such job")
        return pb.GetJobResponse(job=job_detail_message(detail_of(row)))


async def _nothing(_connection: object) -> None:
    """Sessions carry no state."""


async def main(asked: argparse.Namespace) -> None:
    """Serves until its parent ends."""
    server = grpc.aio.server(options=server_options(ServerSettings()))
    # Planned once, as the services' roles have it: planning anew would be four fifths of the statement.
    settings = {"plan_cache_mode": "force_generic_plan"}
    async with asyncpg.create_pool(
        asked.dsn, min_size=SIZE, max_size=SIZE, reset=_nothing, server_settings=settings
    ) as pool:
        handler: Any = grpc.unary_unary_rpc_method_handler(
            BareHandler(pool).get_job,
            request_deserializer=pb.GetJobRequest.FromString,
            response_serializer=pb.GetJobResponse.SerializeToString,
        )
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"GetJob": handler}),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()

        async def usage(_asked: Mapping[str, Any]) -> dict[str, float]:
            return {"cpu": time.process_time()}

        await answer_parent({"target": f"127.0.0.1:{port}"}, {"usage": usage})
        await server.stop(0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--dsn", required=True)
    collect_rarely()
    asyncio.run(main(parser.parse_args()))
