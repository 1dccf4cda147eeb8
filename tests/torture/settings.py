"""How the services are set: everything that takes seconds in production, scaled down; nothing else."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

LEASE: Final = 2.5
HOLD_TIMEOUT: Final = "3600"
"""Nobody leaves HELD by this: jobs are resolved."""
DRAIN_GRACE: Final = "1.0"

# Worst cases of the backoff, the parks and the pauses between two looks; see the services' settings.
WORKER: Final[Mapping[str, str]] = {
    "SLOTS": "12",
    "LEASE": str(LEASE),
    "CUT_OFF": "2.0",
    "RENEWAL_INTERVAL": "0.5",
    "RENEWAL_RETRY": "0.1",
    "POLL_INTERVAL": "0.2",
    "REAP_INTERVAL": "0.5",
    "REAP_WAIT": "0.2",
    "DRAIN_GRACE": DRAIN_GRACE,
    "ENDING_GRACE": "4.0",
    "BACKOFF_BASE": "0.05",
    "BACKOFF_CAP": "1.0",
    "PLATFORM_PARK": "1.0",
    "HOLD_TIMEOUT": HOLD_TIMEOUT,
    "LOOK_UP_INTERVAL": "1.0",
    "LOOK_UP_PATIENCE": "0.6",
    "HEARTBEAT": "2.0",
    "POLICIES": json.dumps({"postgres": {"limit": 2.0}, "postgres.renew_leases": {"limit": 0.5}}),
}
JOBS: Final[Mapping[str, str]] = {
    "REAP_INTERVAL": "0.5",
    "REAP_WAIT": "0.2",
    "BACKOFF_BASE": "0.05",
    "BACKOFF_CAP": "1.0",
    "HOLD_TIMEOUT": HOLD_TIMEOUT,
    "DRAIN_GRACE": DRAIN_GRACE,
    "HEARTBEAT": "2.0",
}
# A crash of the server keeps what the kernel has: only a power cut would need more.
POSTGRES: Final[Mapping[str, str]] = {
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "64MB",
    "log_min_messages": "warning",
}


def routes(given: Sequence[Mapping[str, Any]]) -> str:
    """The launcher's routes with short limits of silence."""
    limits = {"connect": 2.0, "first_token": 1.5, "between_tokens": 1.0}
    return json.dumps([{**route, **limits} for route in given])
