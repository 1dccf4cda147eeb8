"""What a server says of its own health (grpc.health.v1)."""

from collections.abc import Sequence
from typing import Any, Final

from grpc_health.v1 import health_pb2

from jobsctl.exits import ExitCode, Failure
from jobsctl.inputs import usage
from jobsctl.session import Session

OVERALL: Final = "(overall)"
_STATUS: Final = health_pb2.HealthCheckResponse.ServingStatus
_LIST_REQUEST: Any = getattr(health_pb2, "HealthListRequest")  # noqa: B009 - the stubs lack gRFC A90


async def health(session: Session, services: Sequence[str] = ()) -> None:
    """The status of these services, or of everything that the server reports.

    Raises Failure unless all of it serves, and when the server does not know a name.
    """
    answer = await session.call("Health.List", session.health.List, _LIST_REQUEST())
    _keep(answer.statuses, services)
    statuses = {name or OVERALL: one.status for name, one in sorted(answer.statuses.items())}
    if session.printer.json:
        session.printer.message(answer)
    else:
        rows = [(name, _STATUS.Name(status)) for name, status in statuses.items()]
        session.printer.table(("service", "status"), rows)
    bad = [name for name, status in statuses.items() if status != health_pb2.HealthCheckResponse.SERVING]
    if bad:
        raise Failure("NOT_SERVING", ", ".join(bad), code=ExitCode.UNAVAILABLE)


def _keep(statuses: Any, services: Sequence[str]) -> None:
    """Drop what was not asked for."""
    unknown = [name for name in services if name not in statuses]
    if unknown:
        raise usage(f"SERVICE: not known here: {', '.join(unknown)}")
    for name in set(statuses) - set(services or statuses):
        del statuses[name]
