"""What the service may spend on its dependencies, as data; settings change single fields.

A classic split of the default 2 s of a create: pricing 500 ms, SQL 400 ms, reserve 200 ms; of the 800 ms of a
quote: pricing 300 ms, SQL 150 ms.
"""

from typing import Final

from budget.policies import PolicyBook, policies

POSTGRES: Final = "postgres"
PRICING: Final = "pricing"
WORKER: Final = "worker"

CREATE_PRICE: Final = "GetPrice"
QUOTE_PRICE: Final = "GetPrice.Quote"
LOOK: Final = "GetWorkerStatus"
FOLLOW: Final = "StreamProgress"
CONNECT: Final = "connect"
GENERATE: Final = "Generate"
CREATE_QUOTE: Final = "create_quote"

_SQL_FLOOR: Final = 0.005

POLICIES: Final = PolicyBook(
    [
        *policies(
            POSTGRES,
            "read_quote",
            "read_job",
            "list_jobs",
            "read_position",
            "read_events",
            "cancel_job",
            "retry_job",
            "resolve_job",
            "erase_job_content",
            limit=0.4,
            floor=_SQL_FLOOR,
        ),
        # Once a second for all that is watched and waited for: thousands of jobs in one statement.
        *policies(POSTGRES, "read_positions", limit=5.0, floor=_SQL_FLOOR),
        *policies(POSTGRES, CREATE_QUOTE, limit=0.15, floor=_SQL_FLOOR),
        # What a burst of writers waits for: again and again while the line moves (jobs_store.funds_line).
        *policies(
            POSTGRES,
            "find_idempotency_key",
            "create_job",
            "reserve_call",
            limit=0.4,
            floor=_SQL_FLOOR,
            attempts=20,
        ),
        # Nobody waits for less than this: a settlement that gives up leaves its money to the reaper.
        *policies(POSTGRES, "settle_calls", limit=2.0),
        *policies(
            POSTGRES,
            "register_tenant",
            "update_tenant",
            "fund_tenant",
            "read_tenant",
            "read_request_rates",
            "change_lane",
            "take_bulk_request",
            "create_api_key",
            "revoke_api_key",
            "list_api_keys",
            limit=2.0,
            floor=_SQL_FLOOR,
        ),
        # What is counted for operators, over all tenants: bounded, but not small.
        *policies(
            POSTGRES,
            "list_tenants",
            "list_lanes",
            "list_workers",
            "find_operator_request",
            "find_failed_jobs",
            "find_held_jobs",
            "find_unfinished_jobs",
            "find_listed_jobs",
            "foresee_decisions",
            limit=5.0,
            floor=_SQL_FLOOR,
        ),
        # A page of Verify: no other call waits for its connection, and a tenant of any size is one page.
        *policies(POSTGRES, "verify", limit=30.0),
        # A caller waits for it before anything else begins, and only when its key is not remembered.
        *policies(POSTGRES, "find_api_key", limit=0.25, floor=_SQL_FLOOR),
        *policies(POSTGRES, "check_connection", "send_notifications", limit=1.0),
        *policies(PRICING, CREATE_PRICE, limit=0.5, floor=0.02, attempts=2),
        *policies(PRICING, QUOTE_PRICE, limit=0.3, floor=0.02, attempts=2),
        *policies(WORKER, LOOK, limit=0.2, floor=0.1, optional=True),
        *policies(WORKER, FOLLOW, limit=float("inf")),
        *policies(WORKER, CONNECT, limit=0.5),
        *policies(WORKER, GENERATE, limit=float("inf"), floor=0.1),
    ]
)
"""The request path."""

REAPER_POLICIES: Final = PolicyBook(
    policies(
        POSTGRES,
        "find_expired_runs",
        "find_expired_queued",
        "find_expired_held",
        "read_oldest_snapshot",
        "finish_jobs",
        "requeue_jobs",
        "settle_overdue_calls",
        "ensure_partitions",
        "trim",
        "list_lanes",
        "check_connection",
        limit=10.0,
    )
)
"""The reaper, which nobody waits for."""
