-- Deletes a tenant's payloads of jobs that ended $2 seconds ago or longer. Looks at $4 rows after $3, found by id: what a
-- job of that age has, if the job is not over, stays. Locks the finished jobs and waits for none.
-- $1 tenant, $2 lifetime in seconds, $3 after this job, $4 rows.
WITH looked_at AS MATERIALIZED (
    SELECT p.id FROM hourglass.job_payloads p
    WHERE p.tenant_id = $1 AND p.id > $3
      AND p.id < (SELECT hourglass.first_id_of(clock_timestamp() - make_interval(secs => $2)))
    ORDER BY p.id LIMIT $4
), due AS MATERIALIZED (
    SELECT d.id
    FROM unnest(ARRAY(SELECT id FROM looked_at)) AS l (id)
    JOIN hourglass.finished_jobs d ON d.tenant_id = $1 AND d.id = l.id
    WHERE d.end_time < (SELECT clock_timestamp() - make_interval(secs => $2))
    ORDER BY d.id
    FOR NO KEY UPDATE OF d SKIP LOCKED
), trimmed AS (
    DELETE FROM hourglass.job_payloads p
    USING unnest(ARRAY(SELECT id FROM due)) AS d (id)
    WHERE p.tenant_id = $1 AND p.id = d.id
    RETURNING p.id
)
SELECT (SELECT count(*) FROM looked_at) AS looked_at, (SELECT count(*) FROM trimmed) AS trimmed,
       (SELECT id FROM looked_at ORDER BY id DESC LIMIT 1) AS last
