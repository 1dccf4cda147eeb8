"""What is true when a run has ended: the rows of the database and the provider's own log of requests."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import asyncpg

from tests.integration.store.invariants import broken
from tests.model_server import requests_seen

Row: TypeAlias = Mapping[str, Any]
Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

_JOBS: Final = """
    SELECT f.tenant_id, f.id::text AS job_id, f.model, f.labels ->> 'number' AS number, f.rate_card,
           f.max_output_tokens, coalesce(j.state, d.state) AS state,
           coalesce(j.state_cause, d.state_cause) AS state_cause, r.text, r.attempt_number,
           r.input_tokens, r.cached_input_tokens, r.output_tokens
    FROM hourglass.job_facts f
    LEFT JOIN hourglass.jobs j USING (tenant_id, id)
    LEFT JOIN hourglass.finished_jobs d USING (tenant_id, id)
    LEFT JOIN hourglass.job_results r USING (tenant_id, id)
"""
_ATTEMPTS: Final = """
    SELECT job_id::text AS job_id, number, run_token::text AS run_token, outcome, cause, cost,
           extract(epoch FROM send_time)::float AS send_time
    FROM hourglass.attempts ORDER BY job_id, number
"""
_EVENTS: Final = """
    SELECT job_id::text AS job_id, sequence, kind, attempt_number, coalesce(text, '') AS text,
           event_time, attributes
    FROM hourglass.job_events ORDER BY job_id, sequence
"""
_RESERVATIONS: Final = """
    SELECT tenant_id, job_id::text AS job_id, number, amount, captured, released, settle_time, settle_cause
    FROM hourglass.reservations
"""
_FUNDS: Final = "SELECT tenant_id, funded, available, reserved, captured FROM hourglass.tenant_funds"
_COUNTERS: Final = """
    SELECT 'tenant ' || tenant_id AS name, running, queued FROM hourglass.tenant_limits
    UNION ALL SELECT 'lane ' || lane, running, 0 FROM hourglass.lanes
"""
_OPEN_TRANSACTIONS: Final = """
    SELECT application_name, state, extract(epoch FROM clock_timestamp() - xact_start)::float AS seconds
    FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
      AND xact_start < clock_timestamp() - interval '5 s'
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything; amounts in dollars, times in seconds since the Unix epoch."""

    jobs: Sequence[Row]
    attempts: Mapping[str, Sequence[Row]]
    events: Mapping[str, Sequence[Row]]
    reservations: Mapping[str, Sequence[Row]]
    funds: Sequence[Row]
    counters: Sequence[Row]
    open_transactions: Sequence[Row]
    broken_invariants: Mapping[str, Sequence[str]]
    requests: Sequence[Row]


async def gathered(owner_dsn: str, provider: str) -> Facts:
    """Read them all, as the owner of the database."""
    seen = await asyncio.to_thread(requests_seen, provider)
    connection = await asyncpg.connect(owner_dsn)
    try:
        return Facts(
            jobs=await _rows(connection, _JOBS),
            attempts=_by_job(await _rows(connection, _ATTEMPTS)),
            events=_by_job(await _rows(connection, _EVENTS)),
            reservations=_by_job(await _rows(connection, _RESERVATIONS)),
            funds=await _rows(connection, _FUNDS),
            counters=await _rows(connection, _COUNTERS),
            open_transactions=await _rows(connection, _OPEN_TRANSACTIONS),
            broken_invariants=await broken(connection),
            requests=seen["requests"],
        )
    finally:
        await connection.close()


async def _rows(connection: Connection, query: str) -> Sequence[Row]:
    return [dict(row) for row in await connection.fetch(query)]


def _by_job(rows: Sequence[Row]) -> Mapping[str, Sequence[Row]]:
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["job_id"]].append(row)
    return found
