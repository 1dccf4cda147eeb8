"""A worker without a provider: the real StreamProgress over real logs, whose events come at a given rate."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import grpc.aio

from bench.budget.children import Answer, answer_parent
from hourglass.worker.v1 import worker_service_pb2_grpc as pb_grpc
from jobs_store.events import EventKind, NewEvent
from jobs_store.identifiers import JobId, TenantId
from jobs_store.identifiers import Sequence as Cursor
from servicekit.channels import server_options
from servicekit.settings import ServerSettings
from worker.errors import NotOwner
from worker.event_log import EventLog, LogLimits
from worker.rpc import WorkerServicer
from worker.service import ProgressReader

HEARTBEAT: Final = 15.0
WRITE_LIMIT: Final = 5.0


@dataclass(slots=True, kw_only=True)
class Run:
    """What a log needs of a claimed run."""

    tenant: TenantId
    job_id: JobId
    epoch: int
    attempt_number: int
    last_sequence: Cursor
    claim_time: datetime


class Runs:
    """Logs by job, filled at a given rate."""

    def __init__(self) -> None:
        self._logs: dict[JobId, EventLog] = {}

    def follow(self, _tenant: TenantId, job_id: JobId, cursor: Cursor) -> ProgressReader:
        """As WorkerService does."""
        log = self._logs.get(job_id)
        if log is None:
            raise NotOwner(job_id)
        return ProgressReader(job_id, log, cursor, heartbeat=HEARTBEAT)

    async def take(self, asked: Mapping[str, Any]) -> int:
        """These runs, and no others; their claim and start step stand in the store."""
        self._logs.clear()
        for claimed in asked["runs"]:
            job_id = JobId(UUID(claimed["job_id"]))
            run = Run(
                tenant=TenantId(claimed["tenant"]),
                job_id=job_id,
                epoch=claimed["epoch"],
                attempt_number=1,
                last_sequence=Cursor(claimed["last_sequence"]),
                claim_time=datetime.now(UTC),
            )
            log: Any = EventLog(run, worker_id="bench", limits=LogLimits())  # type: ignore[arg-type]  # these fields are all it reads
            log.started(NewEvent(kind=EventKind.ATTEMPT_SENT), time=datetime.now(UTC))
            self._logs[job_id] = log
        return len(self._logs)

    async def write(self, asked: Mapping[str, Any]) -> None:
        """So many events at once, spread over the jobs, each of so many characters."""
        logs, text = list(self._logs.values()), "x" * asked["size"]
        for number in range(asked["events"]):
            _write(logs, number, text)

    async def stream(self, asked: Mapping[str, Any]) -> dict[str, float]:
        """So many events a second in all, spread over the jobs and over time, each of so many characters.

        Answers how many were written, and in which time: behind its rate, it writes on at once.
        """
        logs, rate, text = list(self._logs.values()), asked["rate"], "x" * asked["size"]
        loop = asyncio.get_running_loop()
        started, written = loop.time(), 0
        while (now := loop.time() - started) < asked["seconds"]:
            due = int(now * rate)
            while written < due:
                _write(logs, written, text)
                written += 1
            await asyncio.sleep(max(0.0005, min(0.01, 1 / rate)))
        return {"events": written, "seconds": loop.time() - started}


def _write(logs: Sequence[EventLog], number: int, text: str) -> None:
    log = logs[number % len(logs)]
    attributes = {"offset": 0, "token_count": 1}
    log.append(NewEvent(kind=EventKind.TOKEN_DELTA, time=datetime.now(UTC), text=text, attributes=attributes))
    log.flushed(log.last)


async def main() -> None:
    """Serves until its parent ends."""
    runs = Runs()
    server = grpc.aio.server(options=server_options(ServerSettings(max_concurrent_streams=10_000)))
    service: Any = runs
    servicer = WorkerServicer(service, service, write_limit=WRITE_LIMIT)
    pb_grpc.add_WorkerServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    commands: dict[str, Answer] = {"take": runs.take, "write": runs.write, "stream": runs.stream}
    await answer_parent({"target": f"127.0.0.1:{port}"}, commands)
    await server.stop(0)


if __name__ == "__main__":
    asyncio.run(main())
