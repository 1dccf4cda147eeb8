"""What must hold at every commit, each as a query that answers the rows that break it."""

from collections.abc import Mapping
from typing import Final

import asyncpg

from jobs_store.identifiers import Sequence, epoch_of
from jobs_store.states import Cause, JobState
from jobs_store.transitions import allowed
from tests.integration.store.locks import Connection

INVARIANTS: Final[Mapping[str, str]] = {
    "the token stands on the row exactly while it is RUNNING or HELD": """
        SELECT id FROM hourglass.jobs WHERE (run_token IS NOT NULL) <> (state IN ('RUNNING', 'HELD'))
    """,
    "a job is unfinished or finished, never both and never neither": """
        SELECT f.id FROM hourglass.job_facts f
        LEFT JOIN hourglass.jobs j USING (tenant_id, id)
        LEFT JOIN hourglass.finished_jobs d USING (tenant_id, id)
        WHERE (j.id IS NULL) = (d.id IS NULL)
    """,
    "funded = available + reserved + captured": """
        SELECT tenant_id FROM hourglass.tenant_funds WHERE funded <> available + reserved + captured
    """,
    "the funds are the sums of the fundings and the reservations, and what is archived of them": """
        SELECT f.tenant_id FROM hourglass.tenant_funds f
        LEFT JOIN (SELECT tenant_id, sum(amount) AS funded
                   FROM hourglass.fundings GROUP BY tenant_id) i USING (tenant_id)
        LEFT JOIN (SELECT tenant_id, sum(amount) FILTER (WHERE settle_time IS NULL) AS reserved,
                          sum(captured) AS captured
                   FROM hourglass.reservations GROUP BY tenant_id) r USING (tenant_id)
        WHERE (f.funded, f.reserved, f.captured - f.archived_captured)
              <> (coalesce(i.funded, 0), coalesce(r.reserved, 0), coalesce(r.captured, 0))
    """,
    "of an unfinished job the last reservation is open, of a finished one none": """
        SELECT f.id FROM hourglass.job_facts f
        LEFT JOIN hourglass.jobs j USING (tenant_id, id)
        JOIN (SELECT tenant_id, job_id AS id, max(number) AS last,
                     count(*) FILTER (WHERE settle_time IS NULL) AS open,
                     max(number) FILTER (WHERE settle_time IS NULL) AS last_open
              FROM hourglass.reservations GROUP BY tenant_id, job_id) r USING (tenant_id, id)
        WHERE CASE WHEN j.id IS NULL THEN r.open <> 0
                   ELSE r.open <> 1 OR r.last_open <> r.last OR j.reservation_number <> r.last END
    """,
    "what was captured beyond a reservation is an overrun": """
        SELECT o.subject_id FROM hourglass.overruns o
        LEFT JOIN hourglass.reservations r
            ON r.tenant_id = o.tenant_id AND r.job_id = o.subject_id AND r.number = o.reservation_number
        WHERE r.captured IS DISTINCT FROM r.amount
    """,
    "only what succeeded has a result, and all that succeeded has one until it is erased or has no log": """
        SELECT id FROM hourglass.job_results
        FULL JOIN (SELECT tenant_id, id, state, erase_time,
                          EXISTS (SELECT FROM hourglass.job_events e
                                  WHERE (e.tenant_id, e.job_id) = (f.tenant_id, f.id)) AS has_log
                   FROM hourglass.finished_jobs f WHERE state = 'SUCCEEDED') d USING (tenant_id, id)
        WHERE d.state IS NULL OR (text IS NOT NULL AND d.erase_time IS NOT NULL)
           OR (text IS NULL AND d.erase_time IS NULL AND d.has_log)
    """,
    "what was erased has no payload, no result and no deltas": """
        SELECT d.id FROM hourglass.finished_jobs d
        WHERE d.erase_time IS NOT NULL
          AND (EXISTS (SELECT FROM hourglass.job_payloads p WHERE (p.tenant_id, p.id) = (d.tenant_id, d.id))
               OR EXISTS (SELECT FROM hourglass.job_results r WHERE (r.tenant_id, r.id) = (d.tenant_id, d.id))
               OR EXISTS (SELECT FROM hourglass.job_events e
                          WHERE (e.tenant_id, e.job_id) = (d.tenant_id, d.id) AND e.kind = 'TOKEN_DELTA'))
    """,
    "every job that may run has its payload": """
        SELECT id FROM hourglass.jobs j
        WHERE NOT EXISTS (SELECT FROM hourglass.job_payloads p
                          WHERE (p.tenant_id, p.id) = (j.tenant_id, j.id))
    """,
    "a job with a payload has the key that made it, and every key has its job": """
        SELECT p.id FROM hourglass.job_payloads p
        WHERE NOT EXISTS (SELECT FROM hourglass.idempotency_keys k
                          WHERE (k.tenant_id, k.job_id) = (p.tenant_id, p.id))
        UNION ALL
        SELECT k.job_id FROM hourglass.idempotency_keys k
        WHERE NOT EXISTS (SELECT FROM hourglass.job_facts f
                          WHERE (f.tenant_id, f.id) = (k.tenant_id, k.job_id))
    """,
    "nothing of a job outlives its facts": """
        SELECT r.id FROM (
            SELECT tenant_id, id FROM hourglass.job_payloads
            UNION ALL SELECT tenant_id, id FROM hourglass.job_results
            UNION ALL SELECT tenant_id, id FROM hourglass.jobs
            UNION ALL SELECT tenant_id, id FROM hourglass.finished_jobs
            UNION ALL SELECT tenant_id, job_id FROM hourglass.attempts
            UNION ALL SELECT tenant_id, job_id FROM hourglass.job_events
            UNION ALL SELECT tenant_id, job_id FROM hourglass.reservations
        ) r
        WHERE NOT EXISTS (SELECT FROM hourglass.job_facts f WHERE (f.tenant_id, f.id) = (r.tenant_id, r.id))
    """,
    "a tenant's counters are the numbers of its rows": """
        SELECT l.tenant_id FROM hourglass.tenant_limits l
        LEFT JOIN hourglass.jobs j USING (tenant_id)
        GROUP BY l.tenant_id
        HAVING l.running <> count(*) FILTER (WHERE j.state = 'RUNNING')
            OR l.queued <> count(*) FILTER (WHERE j.state = 'QUEUED')
    """,
    "a lane's counter is the number of its running rows": """
        SELECT l.lane FROM hourglass.lanes l
        LEFT JOIN hourglass.jobs j ON j.lane = l.lane AND j.state = 'RUNNING'
        GROUP BY l.lane HAVING l.running <> count(j.id)
    """,
    "no limit is exceeded": """
        SELECT tenant_id FROM hourglass.tenant_limits WHERE running > max_running
        UNION ALL SELECT lane FROM hourglass.lanes WHERE running > max_running
    """,
    "attempt numbers are those of the claims, each once, in order, while the payload is there": """
        SELECT f.id FROM hourglass.job_facts f
        LEFT JOIN hourglass.jobs j USING (tenant_id, id)
        LEFT JOIN hourglass.finished_jobs d USING (tenant_id, id)
        LEFT JOIN (SELECT tenant_id, job_id AS id, count(*) AS ended, max(number) AS last,
                          count(DISTINCT run_token) AS tokens
                   FROM hourglass.attempts GROUP BY tenant_id, job_id) a USING (tenant_id, id)
        WHERE EXISTS (SELECT FROM hourglass.job_payloads p WHERE (p.tenant_id, p.id) = (f.tenant_id, f.id))
          AND (coalesce(a.ended, 0) + CASE WHEN j.state = 'RUNNING' THEN 1 ELSE 0 END
               <> coalesce(j.attempt_number, d.attempt_number)
               OR a.last > coalesce(j.attempt_number, d.attempt_number) OR a.tokens <> a.ended)
    """,
    "attempts that count are counted, since the last retry by an operator": """
        SELECT f.id FROM hourglass.job_facts f
        LEFT JOIN hourglass.jobs j USING (tenant_id, id)
        LEFT JOIN hourglass.finished_jobs d USING (tenant_id, id)
        LEFT JOIN (SELECT tenant_id, job_id AS id, count(*) FILTER (WHERE counted) AS counted
                   FROM hourglass.attempts a
                   WHERE claim_time > coalesce((SELECT max(e.event_time) FROM hourglass.job_events e
                                                WHERE (e.tenant_id, e.job_id) = (a.tenant_id, a.job_id)
                                                  AND e.attributes ->> 'cause' = 'RETRIED'), '-infinity')
                   GROUP BY tenant_id, job_id) a USING (tenant_id, id)
        WHERE EXISTS (SELECT FROM hourglass.job_payloads p WHERE (p.tenant_id, p.id) = (f.tenant_id, f.id))
          AND coalesce(a.counted, 0) <> coalesce(j.counted_attempts, d.counted_attempts)
    """,
    "the last event is the one that the row names, and its epoch is the row's": """
        SELECT f.id FROM hourglass.job_facts f
        LEFT JOIN hourglass.jobs j USING (tenant_id, id)
        LEFT JOIN hourglass.finished_jobs d USING (tenant_id, id)
        JOIN (SELECT tenant_id, job_id AS id, max(sequence) AS last
              FROM hourglass.job_events GROUP BY tenant_id, job_id) e USING (tenant_id, id)
        WHERE e.last <> coalesce(j.last_sequence, d.last_sequence)
           OR e.last >> 32 <> coalesce(j.epoch, d.epoch)
    """,
    "events have no gap inside an epoch, but where deltas were erased": """
        SELECT job_id FROM (
            SELECT tenant_id, job_id, sequence,
                   lag(sequence) OVER (PARTITION BY tenant_id, job_id ORDER BY sequence) AS before
            FROM hourglass.job_events
        ) e
        LEFT JOIN hourglass.finished_jobs d ON (d.tenant_id, d.id) = (e.tenant_id, e.job_id)
        WHERE d.erase_time IS NULL
          AND sequence <> CASE WHEN before >> 32 = sequence >> 32 THEN before + 1
                               ELSE ((sequence >> 32) << 32) + 1 END
    """,
    "every epoch, and nothing else, begins by naming what is durable before it": """
        SELECT job_id FROM (
            SELECT tenant_id, job_id, sequence, (attributes ->> 'last_durable_sequence')::bigint AS named,
                   lag(sequence) OVER (PARTITION BY tenant_id, job_id ORDER BY sequence) AS before
            FROM hourglass.job_events
        ) e
        LEFT JOIN hourglass.finished_jobs d ON (d.tenant_id, d.id) = (e.tenant_id, e.job_id)
        WHERE CASE WHEN sequence & 4294967295 <> 1 THEN named IS NOT NULL
                   WHEN d.erase_time IS NULL THEN named IS DISTINCT FROM coalesce(before, 0)
                   ELSE named IS NULL OR named < coalesce(before, 0) END
    """,
}


async def broken(connection: Connection) -> dict[str, list[str]]:
    """The invariants that do not hold, with what breaks each."""
    found = {name: await _offenders(connection, query) for name, query in INVARIANTS.items()}
    found["every change of state is in the table of transitions"] = await _unknown_transitions(connection)
    return {name: offenders for name, offenders in found.items() if offenders}


async def _offenders(connection: Connection, query: str) -> list[str]:
    return [str(row[0]) for row in await connection.fetch(query)]


async def _unknown_transitions(connection: Connection) -> list[str]:
    rows = await connection.fetch(
        "SELECT job_id, sequence, attributes ->> 'state' AS state, attributes ->> 'cause' AS cause, "
        "lag(attributes ->> 'state') OVER (PARTITION BY tenant_id, job_id ORDER BY sequence) AS source "
        "FROM hourglass.job_events WHERE kind = 'STATE_CHANGED' ORDER BY job_id, sequence"
    )
    return [_told(row) for row in rows if not _is_allowed(row)]


def _is_allowed(row: asyncpg.Record) -> bool:
    source = None if row["source"] is None else JobState(row["source"])
    return allowed(source, JobState(row["state"]), Cause(row["cause"]))


def _told(row: asyncpg.Record) -> str:
    epoch = epoch_of(Sequence(row["sequence"]))
    return f"{row['job_id']}: {row['source']} -> {row['state']}/{row['cause']} in epoch {epoch}"
