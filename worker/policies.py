"""What the worker may spend on each statement: defaults, changed by `HOURGLASS_WORKER_POLICIES`."""

from __future__ import annotations

from typing import Final

from budget.policies import PolicyBook, policies

POSTGRES: Final = "postgres"

POLICIES: Final = PolicyBook(
    (
        # A renewal that takes longer than this is better sent again.
        *policies(POSTGRES, "renew_leases", "confirm_tokens", limit=4.0),
        *policies(
            POSTGRES,
            "register_lanes",
            "find_waiting_lanes",
            "claim_jobs",
            "start_attempts",
            "append_events",
            "park_lane",
            "take_look_ups",
            "read_cancel_request",
            "read_attempt_outcome",
            "read_last_event",
            "read_tally",
            "record_lost_attempt",
            limit=5.0,
        ),
        # Endings wait for a tenant's funds; what they carry is paid for.
        *policies(POSTGRES, "finish_jobs", "requeue_jobs", "settle_overdue_calls", limit=10.0),
        *policies(POSTGRES, "find_expired_runs", "find_expired_queued", "find_expired_held", limit=5.0),
        *policies(POSTGRES, "read_oldest_snapshot", "list_lanes", limit=2.0),
        *policies(POSTGRES, "ensure_partitions", limit=30.0),
        *policies(POSTGRES, "trim", limit=10.0),
        *policies(POSTGRES, "send_notifications", limit=1.0),
        *policies(POSTGRES, "check_connection", limit=2.0),
    )
)
