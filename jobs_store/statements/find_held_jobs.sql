-- A page of HELD jobs that an operator's filter means, as find_failed_jobs has it, by a partial index of their own. $8 held
-- since before this time (null: whenever): a job's row tells when it was put on hold, because nothing but a change of its
-- state moves its update_time. Takes no lock. $1 after tenant, $2 after job, $3 the last tenant (null: all), $4 lane,
-- $5 cause, $6 created from, $7 created before (null: any), $9 rows that are looked at, $10 jobs.
WITH looked_at AS MATERIALIZED (
    SELECT j.tenant_id, j.id, j.lane, j.state, j.state_cause, j.update_time
    FROM hourglass.jobs j
    WHERE j.hold_until IS NOT NULL AND (j.tenant_id, j.id) > ($1, $2::uuid)
      AND j.tenant_id <= coalesce($3, (SELECT max(t.tenant_id) FROM hourglass.tenants t))
    ORDER BY j.tenant_id, j.id LIMIT $9
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
      AND ($8::timestamptz IS NULL OR l.update_time <= $8)
    ORDER BY l.tenant_id, l.id LIMIT $10
)
SELECT w.tenant_id, w.id, w.lane, w.state, seen.looked_at, seen.tenant_id AS last_tenant_id, seen.id AS last_id
FROM (
    SELECT count(*) OVER () AS looked_at, l.tenant_id, l.id
    FROM looked_at l ORDER BY l.tenant_id DESC, l.id DESC LIMIT 1
) seen
LEFT JOIN wanted w ON true
ORDER BY w.tenant_id, w.id
