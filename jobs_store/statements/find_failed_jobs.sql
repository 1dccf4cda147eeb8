-- A page of FAILED jobs that an operator's filter means, in the order of tenants and ids: looks at $9 of them at most, from
-- a position on, and says how far it came. Found by a partial index in that order. Takes no lock: a decision checks again
-- under its own. $1 after tenant, $2 after job, $3 the last tenant (null: all), $4 lane, $5 cause, $6 created from,
-- $7 created before (null: any), $8 failed until (null: whenever), $9 rows that are looked at, $10 jobs.
WITH looked_at AS MATERIALIZED (
    SELECT d.tenant_id, d.id, d.lane, d.state, d.state_cause, d.end_time
    FROM hourglass.finished_jobs d
    WHERE d.state = 'FAILED' AND (d.tenant_id, d.id) > ($1, $2::uuid)
      AND d.tenant_id <= coalesce($3, (SELECT max(t.tenant_id) FROM hourglass.tenants t))
    ORDER BY d.tenant_id, d.id LIMIT $9
), wanted AS MATERIALIZED (
    SELECT l.tenant_id, l.id, l.lane, l.state
    FROM looked_at l
    CROSS JOIN LATERAL (
        SELECT FROM hourglass.job_facts f
        WHERE f.tenant_id = l.tenant_id AND f.id = l.id
          AND ($6::timestamptz IS NULL OR f.create_time >= $6) AND ($7::timestamptz IS NULL OR f.create_time < $7)
        LIMIT 1
    ) created
    WHERE ($4::text IS NULL OR l.lane = $4) AND ($5::text IS NULL OR l.state_cause = $5)
      AND ($8::timestamptz IS NULL OR l.end_time <= $8)
    ORDER BY l.tenant_id, l.id LIMIT $10
)
SELECT w.tenant_id, w.id, w.lane, w.state, seen.looked_at, seen.tenant_id AS last_tenant_id, seen.id AS last_id
FROM (
    SELECT count(*) OVER () AS looked_at, l.tenant_id, l.id
    FROM looked_at l ORDER BY l.tenant_id DESC, l.id DESC LIMIT 1
) seen
LEFT JOIN wanted w ON true
ORDER BY w.tenant_id, w.id
