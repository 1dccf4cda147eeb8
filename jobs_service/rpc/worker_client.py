"""The workers, as the use cases know them: their live events, and one look at how busy they are."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import grpc
import structlog

from budget.core import Budget
from budget.errors import BudgetError
from budget.grpc_client import call, stream
from budget.policy import Policy
from budget.spend import reason_of, skip
from hourglass.worker.v1 import worker_service_pb2 as pb
from hourglass.worker.v1.worker_service_pb2_grpc import WorkerServiceStub
from jobs_service.domain.quoting import LineStatus, Load
from jobs_service.rpc.worker_channels import WorkerChannels
from jobs_service.service.feed import BufferedFeed
from jobs_store.identifiers import JobId, Sequence, TenantId
from servicekit.spans import trace_context
from wire.events import event_of

_log = structlog.stdlib.get_logger("hourglass.watch")

ENDED: Final = "ENDED"
"""The worker's stream ended as it should: with the run."""


class WorkerProgress:
    """StreamProgress of whichever worker runs a job. `buffer`: events on their way to its one reader."""

    def __init__(self, channels: WorkerChannels, *, policy: Policy, buffer: int) -> None:
        self._channels = channels
        self._policy = policy
        self._buffer = buffer

    @asynccontextmanager
    async def follow(
        self, address: str, tenant: TenantId, job_id: JobId, *, after: Sequence, budget: Budget
    ) -> AsyncIterator[BufferedFeed]:
        """See `ports.ProgressSource`. Reads in a task of its own: a read that is given up ends its stream."""
        feed = BufferedFeed(self._buffer)
        request = pb.StreamProgressRequest(tenant_id=tenant, job_id=str(job_id), after_sequence=after)
        pump = asyncio.create_task(self._pump(address, request, feed, budget=budget), name=f"follow {job_id}")
        try:
            yield feed
        finally:
            pump.cancel()
            await asyncio.wait({pump})

    async def _pump(
        self, address: str, request: pb.StreamProgressRequest, feed: BufferedFeed, *, budget: Budget
    ) -> None:
        try:
            await self._copy(address, request, feed, budget=budget)
            reason = ENDED
        except BudgetError as error:
            reason = reason_of(error)
        except Exception:  # noqa: BLE001 - the reader must not wait for a task that is dead
            _log.exception("a worker's stream cannot be read", address=address)
            reason = "INTERNAL"
        await feed.end(reason)

    async def _copy(
        self, address: str, request: pb.StreamProgressRequest, feed: BufferedFeed, *, budget: Budget
    ) -> None:
        async with self._channels.lease(address) as channel:
            method = WorkerServiceStub(channel).StreamProgress
            metadata = tuple(trace_context().items())
            async with stream(
                method, request, budget=budget, policy=self._policy, metadata=metadata
            ) as responses:
                async for response in responses:
                    event = event_of(response.event) if response.HasField("event") else None
                    if event is not None:
                        await feed.put(event)


class WorkerLoadClient:
    """GetWorkerStatus at the workers' target; without a target nobody looks."""

    def __init__(self, channel: grpc.aio.Channel | None) -> None:
        self._stub = None if channel is None else WorkerServiceStub(channel)

    async def look(self, *, budget: Budget, policy: Policy) -> Load:
        """See `ports.WorkerLook`."""
        if self._stub is None:
            return Load(status=LineStatus.SKIPPED, reason="NOT_CONFIGURED")
        if skip(budget, policy):
            return Load(status=LineStatus.SKIPPED, reason="BUDGET_TOO_LOW")
        try:
            status = await call(
                self._stub.GetWorkerStatus, pb.GetWorkerStatusRequest(), budget=budget, policy=policy
            )
        except BudgetError as error:
            return Load(status=LineStatus.UNAVAILABLE, reason=error.reason)
        return Load(status=LineStatus.OK, free_slots=status.free_slot_count, slots=status.slot_count)
