"""grpc.health.v1: overall (`""`), per service, `liveness` and `readiness`.

The stock asyncio servicer holds a lock while it writes to a watcher, so that one stalled watcher stops
every change of state; and it starts as SERVING. This one holds no lock and starts as NOT_SERVING.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

import grpc
import structlog
from grpc_health.v1 import health_pb2, health_pb2_grpc

from servicekit.lifecycle import pause

OVERALL: Final = ""
LIVENESS: Final = "liveness"
READINESS: Final = "readiness"
_UNREADY_INTERVAL: Final = 0.1
SERVICE_NAME: Final = "grpc.health.v1.Health"

_Status = health_pb2.HealthCheckResponse
_Context = grpc.aio.ServicerContext[Any, Any]


class Health(health_pb2_grpc.HealthServicer):
    """Serves from the start: `liveness`. Serves while `ready`: everything else."""

    def __init__(self, services: Iterable[str] = ()) -> None:
        self._services = {OVERALL, READINESS, *services}
        self._ready = False
        self._closed = False
        self._changed = asyncio.Event()

    @property
    def ready(self) -> bool:
        """Whether new requests are welcome."""
        return self._ready

    def add(self, service: str) -> None:
        """Reports one more service."""
        self._services.add(service)

    def set_ready(self, ready: bool) -> None:
        """Changes what is reported; watchers are told."""
        if ready != self._ready and not self._closed:
            self._ready = ready
            self._tell()

    def close(self) -> None:
        """Reports NOT_SERVING for good and ends all watches: an open stream holds up the server's stop."""
        self._ready, self._closed = False, True
        self._tell()

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _status(self, service: str) -> int:
        if service == LIVENESS:
            return _Status.SERVING
        if service not in self._services:
            return _Status.SERVICE_UNKNOWN
        return _Status.SERVING if self._ready else _Status.NOT_SERVING

    async def Check(self, request: health_pb2.HealthCheckRequest, context: _Context) -> Any:  # noqa: N802
        """NOT_FOUND for a service that is not known."""
        status = self._status(request.service)
        if status == _Status.SERVICE_UNKNOWN:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"no service {request.service[:100]!r} here")
        return _Status(status=status)

    async def List(self, _request: Any, _context: _Context) -> Any:  # noqa: N802
        """The status of everything."""
        names = sorted({LIVENESS, *self._services})
        return health_pb2.HealthListResponse(  # type: ignore[attr-defined] # the stubs lack gRFC A90
            statuses={name: _Status(status=self._status(name)) for name in names}
        )

    async def Watch(self, request: health_pb2.HealthCheckRequest, context: _Context) -> None:  # noqa: N802
        """The status now and after each change, until the server drains."""
        sent: int | None = None
        while True:
            changed, closed, status = self._changed, self._closed, self._status(request.service)
            if status != sent:
                await context.write(_Status(status=status))
                sent = status
            if closed:
                await context.abort(grpc.StatusCode.UNAVAILABLE, "the server is shutting down")
            await changed.wait()


class ReadinessLoop:
    """A background loop that makes a server ready while a check passes; looks often while it does not."""

    def __init__(
        self, health: Health, check: Callable[[], Awaitable[bool]], *, interval: float = 1.0
    ) -> None:
        self._health = health
        self._check = check
        self._interval = interval
        self._log = structlog.stdlib.get_logger("hourglass.health")

    async def run(self, stop: asyncio.Event) -> None:
        """Checks until told to stop. The check bounds itself by a budget and handles its own errors."""
        while not stop.is_set():
            ready = await self._check()
            if ready != self._health.ready and not stop.is_set():
                self._log.info("readiness changed", ready=ready)
                self._health.set_ready(ready)
            await pause(self._interval if ready else min(self._interval, _UNREADY_INTERVAL), stop)
