"""WorkerService over gRPC: messages to use cases and back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from hourglass.jobs.v1 import jobs_service_pb2 as jobs_pb
from hourglass.worker.v1 import worker_service_pb2 as pb
from hourglass.worker.v1 import worker_service_pb2_grpc as pb_grpc
from servicekit.errors import NotImplementedYet
from servicekit.methods import Kind, MethodPolicy
from servicekit.wire_money import money_of
from servicekit.wire_time import duration_of
from wire.enums import to_wire
from wire.events import event_message
from worker.errors import ReRead
from worker.requests import grace_of, progress_question

if TYPE_CHECKING:
    import grpc

    from jobs_store.identifiers import JobId
    from servicekit.methods import MethodPolicies
    from servicekit.server import Server
    from worker.service import WorkerService

SERVICE: Final = "hourglass.worker.v1.WorkerService"


def methods(*, stream_age: float) -> MethodPolicies:
    """The budget of each method. stream_age: seconds that a StreamProgress lasts at most."""
    return {
        f"/{SERVICE}/StreamProgress": MethodPolicy(
            default=None, cap=stream_age, kind=Kind.STREAM, resumable=True
        ),
        f"/{SERVICE}/Generate": MethodPolicy(default=10.0, cap=60.0, kind=Kind.STREAM),
        f"/{SERVICE}/GetWorkerStatus": MethodPolicy(default=0.2, cap=2.0),
        f"/{SERVICE}/Drain": MethodPolicy(default=10.0, cap=60.0),
    }


class WorkerServicer(pb_grpc.WorkerServiceServicer):
    """The methods of the contract. write_limit: seconds that a reader may take for one message."""

    def __init__(self, service: WorkerService, *, write_limit: float) -> None:
        self._service = service
        self._write_limit = write_limit

    @override
    async def StreamProgress(  # type: ignore[override]  # the stubs know generators only; grpc.aio, writers too
        self, request: pb.StreamProgressRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> None:
        question = progress_question(request)
        reader = self._service.follow(question.tenant, question.job_id, question.cursor)
        while (events := await reader.next()) is not None:
            for event in events:
                message = pb.StreamProgressResponse(event=event_message(event))
                await self._write(message, context, question.job_id)
            if not events:
                heartbeat = pb.StreamProgressResponse(heartbeat=jobs_pb.Heartbeat())
                await self._write(heartbeat, context, question.job_id)

    @override
    async def Generate(  # type: ignore[override]  # the same
        self, request: pb.GenerateRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> None:
        raise NotImplementedYet("Generate")

    @override
    async def GetWorkerStatus(
        self, request: pb.GetWorkerStatusRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> pb.GetWorkerStatusResponse:
        status = self._service.status()
        return pb.GetWorkerStatusResponse(
            worker_id=status.worker_id,
            state=to_wire(pb.WorkerState, status.state),
            slot_count=status.slots,
            free_slot_count=status.free_slots,
            lanes=status.lanes,
            since_renewal_duration=duration_of(status.since_renewal),
            running_worst_case_amount=money_of(status.at_risk),
        )

    @override
    async def Drain(
        self, request: pb.DrainRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> pb.DrainResponse:
        return pb.DrainResponse(running_count=self._service.drain(grace_of(request)))

    async def _write(
        self,
        message: pb.StreamProgressResponse,
        context: grpc.aio.ServicerContext[Any, Any],
        job_id: JobId,
    ) -> None:
        """A reader that does not read is let go: it holds a window of the connection, and nothing else."""
        timer = asyncio.timeout(self._write_limit)
        try:
            async with timer:
                await context.write(message)
        except TimeoutError:
            if timer.expired():
                raise ReRead(job_id) from None
            raise


def add_to(server: Server, service: WorkerService, *, write_limit: float) -> None:
    """Serves WorkerService on a server."""
    servicer = WorkerServicer(service, write_limit=write_limit)
    server.add(SERVICE, pb_grpc.add_WorkerServiceServicer_to_server, servicer)
