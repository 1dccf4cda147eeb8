"""How long a call may take when nobody said so: the longest budget that its method takes, as data."""

import math
from collections.abc import Mapping
from typing import Final

from budget.policy import Policy

DEPENDENCY: Final = "hourglass"
JOBS: Final[Mapping[str, float]] = {
    "Quote": 5.0,
    "CreateJob": 10.0,
    "GetJob": 5.0,
    "ListJobs": 5.0,
    "WaitJob": 300.0,
    "WatchJob": math.inf,
    "CancelJob": 5.0,
    "RetryJob": 5.0,
    "ResolveJob": 5.0,
    "EraseJobContent": 5.0,
}
ADMIN: Final[Mapping[str, float]] = {
    "CreateTenant": 60.0,
    "UpdateTenant": 60.0,
    "GetTenant": 60.0,
    "ListTenants": 60.0,
    "FundTenant": 60.0,
    "ListLanes": 60.0,
    "UpdateLane": 60.0,
    "PauseLane": 60.0,
    "ResumeLane": 60.0,
    "ListWorkers": 60.0,
    "CreateApiKey": 60.0,
    "ListApiKeys": 60.0,
    "RevokeApiKey": 60.0,
    "BulkRetryJobs": 3600.0,
    "BulkResolveJobs": 3600.0,
    "BulkCancelJobs": 3600.0,
    "Verify": 3600.0,
}
HEALTH: Final[Mapping[str, float]] = {"Health.List": 5.0}
_LIMITS: Final[Mapping[str, float]] = {**JOBS, **ADMIN, **HEALTH}


def policy_of(method: str, timeout: float | None) -> Policy:
    """The policy of a method; `timeout`, where it was given, replaces the limit."""
    return Policy(dependency=DEPENDENCY, method=method, limit=timeout or _LIMITS[method])
