"""Waiting until a service says, by grpc.health.v1, that requests are welcome."""

from typing import Any, Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from budget.core import Budget
from budget.grpc_client import stream
from budget.policy import Policy
from servicekit.channels import client_options

READINESS: Final = "readiness"


async def until_ready(address: str, *, budget: Budget) -> None:
    """Return once the server at `address` serves. Raises BudgetError when that takes too long."""
    policy = Policy(dependency="stack", method="Health.Watch", limit=budget.spendable() or 1e-3)
    async with grpc.aio.insecure_channel(address, options=client_options()) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)  # its types know the synchronous stub only
        request = health_pb2.HealthCheckRequest(service=READINESS)
        async with stream(stub.Watch, request, budget=budget, policy=policy) as statuses:
            async for answer in statuses:
                if answer.status == health_pb2.HealthCheckResponse.SERVING:
                    return
