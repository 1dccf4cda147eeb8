"""WorkerService over gRPC: messages to use cases and back."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, assert_never

from typing_extensions import override

from budget.timer import Waits
from hourglass.jobs.v1 import event_pb2 as event_pb
from hourglass.jobs.v1 import job_pb2 as job_pb
from hourglass.jobs.v1 import jobs_service_pb2 as jobs_pb
from hourglass.worker.v1 import worker_service_pb2 as pb
from hourglass.worker.v1 import worker_service_pb2_grpc as pb_grpc
from servicekit.call import call_of
from servicekit.identity.scopes import Scope, needs
from servicekit.methods import Admission, Kind, MethodPolicy
from servicekit.wire_money import money_of
from servicekit.wire_time import duration_of
from wire.enums import to_wire
from wire.events import event_message
from wire.job import provider_cost_message, usage_message
from worker.errors import ReRead
from worker.generating import CallSent, Generated, Piece
from worker.requests import grace_of, progress_question, short_call

if TYPE_CHECKING:
    import grpc

    from jobs_store.events import Event
    from servicekit.methods import MethodPolicies
    from servicekit.server import Server
    from worker.generating import Generating
    from worker.service import WorkerService

SERVICE: Final = "hourglass.worker.v1.WorkerService"


def methods(*, stream_age: float) -> MethodPolicies:
    """The budget of each method, and what it asks of a caller. stream_age: seconds that a StreamProgress
    lasts at most."""
    return {
        f"/{SERVICE}/StreamProgress": MethodPolicy(
            default=None,
            cap=stream_age,
            kind=Kind.STREAM,
            resumable=True,
            admission=Admission.COUNT,
            access=needs(Scope.READ_CONTENT, of_tenant=False),
        ),
        f"/{SERVICE}/Generate": MethodPolicy(
            default=10.0,
            cap=60.0,
            kind=Kind.STREAM,
            admission=Admission.COUNT,
            access=needs(Scope.WRITE, Scope.READ_CONTENT, of_tenant=False),
        ),
        f"/{SERVICE}/GetWorkerStatus": MethodPolicy(
            default=0.2, cap=2.0, admission=Admission.EXEMPT, access=needs(Scope.READ, of_tenant=False)
        ),
        f"/{SERVICE}/Drain": MethodPolicy(
            default=10.0, cap=60.0, admission=Admission.EXEMPT, access=needs(Scope.ADMIN, of_tenant=False)
        ),
    }


class WorkerServicer(pb_grpc.WorkerServiceServicer):
    """The methods of the contract. write_limit: seconds that a reader may take for one message."""

    def __init__(self, service: WorkerService, generating: Generating, *, write_limit: float) -> None:
        self._service = service
        self._generating = generating
        self._write_limit = write_limit

    @override
    async def StreamProgress(  # type: ignore[override]  # the stubs know generators only; grpc.aio, writers too
        self, request: pb.StreamProgressRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> None:
        question = progress_question(request)
        reader = self._service.follow(question.tenant, question.job_id, question.cursor)
        with closing(Waits.here()) as writes:
            while (events := await reader.next()) is not None:
                for message in map(_event_message, events) if events else (_heartbeat(),):
                    # A reader that does not read is let go: it holds a window of the connection, no more.
                    if not await writes.in_time(context.write(message), seconds=self._write_limit):
                        raise ReRead(question.job_id)

    @override
    async def Generate(  # type: ignore[override]  # the same
        self, request: pb.GenerateRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> None:
        async def tell(part: CallSent | Piece) -> None:
            await context.write(_part_message(part))

        call = short_call(request)
        generated = await self._generating.generate(call, tell, budget=call_of(context).budget)
        await context.write(pb.GenerateResponse(result=_result_message(generated)))

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


def _event_message(event: Event) -> pb.StreamProgressResponse:
    return pb.StreamProgressResponse(event=event_message(event))


def _heartbeat() -> pb.StreamProgressResponse:
    return pb.StreamProgressResponse(heartbeat=jobs_pb.Heartbeat())


def _part_message(part: CallSent | Piece) -> pb.GenerateResponse:
    match part:
        case CallSent(provider=provider, model=model):
            return pb.GenerateResponse(sent=event_pb.AttemptSent(provider=provider, provider_model=model))
        case Piece(text=text, offset=offset):
            delta = event_pb.TokenDelta(text=text, offset=offset, token_count=1)
            return pb.GenerateResponse(token_delta=delta)
        case _:
            assert_never(part)


def _result_message(generated: Generated) -> pb.GenerateResult:
    return pb.GenerateResult(
        finish_reason=to_wire(job_pb.FinishReason, generated.finish_reason),
        usage=usage_message(generated.usage),
        provider_cost=provider_cost_message(generated.cost),
        provider_request_id=generated.provider_request_id,
    )


def add_to(server: Server, service: WorkerService, generating: Generating, *, write_limit: float) -> None:
    """Serves WorkerService on a server."""
    servicer = WorkerServicer(service, generating, write_limit=write_limit)
    server.add(SERVICE, pb_grpc.add_WorkerServiceServicer_to_server, servicer)
