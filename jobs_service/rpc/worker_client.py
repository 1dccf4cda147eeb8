"""The workers, as the use cases know them: their live events, and one look at how busy they are."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
from typing_extensions import override

from budget.core import Budget
from budget.errors import BudgetError
from budget.grpc_client import Responses, call, stream
from budget.policy import Policy
from budget.spend import skip
from hourglass.worker.v1 import worker_service_pb2 as pb
from hourglass.worker.v1.worker_service_pb2_grpc import WorkerServiceStub
from jobs_service.domain.quoting import LineStatus, Load
from jobs_service.rpc.worker_channels import WorkerChannels
from jobs_store.events import Event
from jobs_store.identifiers import JobId, Sequence, TenantId
from servicekit.identity.outgoing import Outgoing
from wire.events import event_of


class WorkerProgress:
    """StreamProgress of whichever worker runs a job."""

    def __init__(self, channels: WorkerChannels, outgoing: Outgoing, *, policy: Policy) -> None:
        self._channels = channels
        self._outgoing = outgoing
        self._policy = policy

    @asynccontextmanager
    async def events(
        self, address: str, tenant: TenantId, job_id: JobId, *, after: Sequence, budget: Budget
    ) -> AsyncIterator[AsyncIterator[Event]]:
        """See `ports.EventSource`."""
        request = pb.StreamProgressRequest(tenant_id=tenant, job_id=str(job_id), after_sequence=after)
        metadata = self._outgoing.metadata(tenant=tenant)
        async with self._channels.lease(address) as channel:
            method = WorkerServiceStub(channel).StreamProgress
            async with stream(
                method, request, budget=budget, policy=self._policy, metadata=metadata
            ) as responses:
                yield _Events(responses)


class _Events(AsyncIterator[Event]):
    """The events among a worker's responses, of the kinds that this release knows."""

    def __init__(self, responses: Responses[pb.StreamProgressResponse]) -> None:
        self._responses = responses

    @override
    async def __anext__(self) -> Event:
        while True:
            response = await anext(self._responses)
            event = event_of(response.event) if response.HasField("event") else None
            if event is not None:
                return event


class WorkerLoadClient:
    """GetWorkerStatus at the workers' target; without a target nobody looks."""

    def __init__(self, channel: grpc.aio.Channel | None, outgoing: Outgoing) -> None:
        self._stub = None if channel is None else WorkerServiceStub(channel)
        self._outgoing = outgoing

    async def look(self, *, budget: Budget, policy: Policy) -> Load:
        """See `ports.WorkerLook`."""
        if self._stub is None:
            return Load(status=LineStatus.SKIPPED, reason="NOT_CONFIGURED")
        if skip(budget, policy):
            return Load(status=LineStatus.SKIPPED, reason="BUDGET_TOO_LOW")
        try:
            status = await call(
                self._stub.GetWorkerStatus,
                pb.GetWorkerStatusRequest(),
                budget=budget,
                policy=policy,
                metadata=self._outgoing.metadata(),
            )
        except BudgetError as error:
            return Load(status=LineStatus.UNAVAILABLE, reason=error.reason)
        return Load(status=LineStatus.OK, free_slots=status.free_slot_count, slots=status.slot_count)
