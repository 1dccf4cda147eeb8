"""What each method may take, in seconds, what it has to pass at the door, what it asks of a caller: data."""

from collections.abc import Mapping
from typing import Final

from servicekit.identity.scopes import Access, Scope, needs
from servicekit.methods import Admission, Kind, MethodPolicies, MethodPolicy

JOBS: Final = "hourglass.jobs.v1.JobService"
ADMIN: Final = "hourglass.jobs.v1.AdminService"

_UNARY: Final[Mapping[str, tuple[float, float]]] = {
    "Quote": (0.8, 5.0),
    "CreateJob": (2.0, 10.0),
    "GetJob": (1.0, 5.0),
    "ListJobs": (1.0, 5.0),
    "WaitJob": (30.0, 300.0),
    "CancelJob": (1.0, 5.0),
    "RetryJob": (1.0, 5.0),
    "ResolveJob": (1.0, 5.0),
    "EraseJobContent": (1.0, 5.0),
}
"""Default and cap of JobService's methods."""

_ADMISSION: Final[Mapping[str, Admission]] = {
    "CreateJob": Admission.DEFERRED,  # the key first: a replay answers while the server is full
    "WaitJob": Admission.COUNT,
}

_ACCESS: Final[Mapping[str, Access]] = {
    "Quote": needs(Scope.WRITE),  # it leaves a row, and is the first half of a create
    "CreateJob": needs(Scope.WRITE),
    "GetJob": needs(Scope.READ),
    "ListJobs": needs(Scope.READ),
    "WaitJob": needs(Scope.READ),
    "WatchJob": needs(Scope.READ),
    "CancelJob": needs(Scope.WRITE),
    "RetryJob": needs(Scope.WRITE),
    "ResolveJob": needs(Scope.WRITE),
    "EraseJobContent": needs(Scope.WRITE),
    "Generate": needs(Scope.WRITE, Scope.READ_CONTENT),
}
"""What JobService's methods ask of a caller. Content that a read may show: rpc.content."""

_ADMIN_ACCESS: Final = needs(Scope.ADMIN, of_tenant=False)
_ADMIN_STREAMS: Final = ("BulkRetryJobs", "BulkResolveJobs", "BulkCancelJobs", "Verify")
_ADMIN_UNARY: Final = (
    "CreateTenant",
    "UpdateTenant",
    "GetTenant",
    "ListTenants",
    "FundTenant",
    "ListLanes",
    "UpdateLane",
    "PauseLane",
    "ResumeLane",
    "ListWorkers",
    "CreateApiKey",
    "ListApiKeys",
    "RevokeApiKey",
)
_ADMIN_DEFAULT: Final = 10.0
ADMIN_PAGE: Final = _ADMIN_DEFAULT
"""The budget of each page of an admin stream: nobody but the service knows where a page begins."""
_ADMIN_CAP: Final = 60.0
_ADMIN_STREAM_CAP: Final = 3600.0


def methods(*, max_stream_age: float) -> MethodPolicies:
    """Every method of both services. `max_stream_age`: seconds after which a watch is told to come again."""
    jobs = {
        f"/{JOBS}/{name}": MethodPolicy(
            default=default,
            cap=cap,
            admission=_ADMISSION.get(name, Admission.NORMAL),
            access=_ACCESS[name],
        )
        for name, (default, cap) in _UNARY.items()
    }
    watch = MethodPolicy(
        default=None,
        cap=max_stream_age,
        kind=Kind.STREAM,
        resumable=True,
        admission=Admission.COUNT,
        access=_ACCESS["WatchJob"],
    )
    generate = MethodPolicy(
        default=10.0, cap=60.0, kind=Kind.STREAM, admission=Admission.COUNT, access=_ACCESS["Generate"]
    )
    admin = MethodPolicy(
        default=_ADMIN_DEFAULT, cap=_ADMIN_CAP, admission=Admission.EXEMPT, access=_ADMIN_ACCESS
    )
    # Each page of these has a budget of its own; the stream only has to end some day.
    pages = MethodPolicy(
        default=None,
        cap=_ADMIN_STREAM_CAP,
        kind=Kind.STREAM,
        admission=Admission.EXEMPT,
        access=_ADMIN_ACCESS,
    )
    return {
        **jobs,
        f"/{JOBS}/WatchJob": watch,
        f"/{JOBS}/Generate": generate,
        **{f"/{ADMIN}/{name}": admin for name in _ADMIN_UNARY},
        **{f"/{ADMIN}/{name}": pages for name in _ADMIN_STREAMS},
    }
