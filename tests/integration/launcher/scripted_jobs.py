"""A JobService that plays one scripted job, for tests of its clients."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc
from google.rpc.code_pb2 import UNAVAILABLE
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from hourglass.jobs.v1.event_pb2 import AttemptStarted, JobEvent, StateChanged, TokenDelta
from hourglass.jobs.v1.job_pb2 import JobState
from hourglass.jobs.v1.jobs_service_pb2 import Heartbeat, WatchJobRequest, WatchJobResponse

EPOCH = 2 * 2**32


def scripted_events(*texts: str) -> list[JobEvent]:
    """A job that runs, says these texts, one token each, and succeeds."""
    events = [
        JobEvent(sequence=EPOCH + 1, state_changed=StateChanged(state=JobState.JOB_STATE_RUNNING)),
        JobEvent(sequence=EPOCH + 2, attempt_number=1, attempt_started=AttemptStarted(worker_id="w")),
    ]
    offset = 0
    for number, text in enumerate(texts, 3):
        delta = TokenDelta(text=text, offset=offset, token_count=1)
        events.append(JobEvent(sequence=EPOCH + number, attempt_number=1, token_delta=delta))
        offset += len(text)
    ended = StateChanged(state=JobState.JOB_STATE_SUCCEEDED, cause="ACCEPTED", terminal=True)
    return [*events, JobEvent(sequence=EPOCH + len(texts) + 3, state_changed=ended)]


class ScriptedJobs:
    """Answers WatchJob: heartbeats between events, and RESUME after `resume_after` events of each stream."""

    def __init__(self, events: Sequence[JobEvent], *, resume_after: int = 1_000_000) -> None:
        self.cursors: list[int] = []
        self._events = events
        self._resume_after = resume_after

    async def watch_job(
        self, request: WatchJobRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[WatchJobResponse]:
        self.cursors.append(request.after_sequence)
        sent = 0
        for event in self._events:
            if event.sequence <= request.after_sequence:
                continue
            if sent == self._resume_after:
                await context.abort(grpc.StatusCode.UNAVAILABLE, "resume", trailing_metadata=_resume())
            yield WatchJobResponse(event=event)
            yield WatchJobResponse(heartbeat=Heartbeat(sequence=event.sequence))
            sent += 1


def _resume() -> tuple[tuple[str, bytes]]:
    status = Status(code=UNAVAILABLE, message="resume")
    status.details.add().Pack(ErrorInfo(reason="RESUME", domain="hourglass"))
    return (("grpc-status-details-bin", status.SerializeToString()),)


@asynccontextmanager
async def serving(service: ScriptedJobs) -> AsyncIterator[str]:
    """Serve it on loopback; yields host:port."""
    server = grpc.aio.server()
    handler = grpc.unary_stream_rpc_method_handler(
        service.watch_job,
        request_deserializer=WatchJobRequest.FromString,
        response_serializer=WatchJobResponse.SerializeToString,
    )
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler("hourglass.jobs.v1.JobService", {"WatchJob": handler})]
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)
