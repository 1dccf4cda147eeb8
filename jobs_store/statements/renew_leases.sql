-- Renews the leases of all runs of a process. Rows that somebody else has locked are skipped, never waited for, and
-- answered as absent: confirm_tokens tells whether they are busy or lost. A HELD row keeps its token and has no lease.
-- $1 tenants, $2 jobs, $3 tokens, side by side; $4 lease in seconds.
WITH input AS MATERIALIZED (
    SELECT * FROM unnest($1::text[], $2::uuid[], $3::uuid[]) WITH ORDINALITY AS r (tenant_id, id, run_token, ordinal)
), fenced AS MATERIALIZED (
    SELECT r.ordinal, j.tenant_id, j.id
    FROM input r
    JOIN hourglass.jobs j ON j.tenant_id = r.tenant_id AND j.id = r.id
    WHERE j.run_token = r.run_token
    ORDER BY j.tenant_id, j.id
    FOR NO KEY UPDATE OF j SKIP LOCKED
), renewed AS (
    UPDATE hourglass.jobs j
    SET lease_until = CASE WHEN j.state = 'RUNNING' THEN clock_timestamp() + make_interval(secs => $4) END
    FROM fenced f
    WHERE j.tenant_id = f.tenant_id AND j.id = f.id
    RETURNING f.ordinal, CASE WHEN j.cancel_request_time IS NOT NULL THEN 'CANCEL_REQUESTED'
                              WHEN j.state = 'HELD' THEN 'HELD'
                              ELSE 'OK' END AS verdict
)
SELECT r.ordinal, coalesce(n.verdict, 'ABSENT') AS verdict
FROM input r LEFT JOIN renewed n ON n.ordinal = r.ordinal
ORDER BY r.ordinal
