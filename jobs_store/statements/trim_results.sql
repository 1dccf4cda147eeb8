-- Deletes a tenant's results of jobs that ended $2 seconds ago or longer. The log has the answer's text too: the result
-- waits until it has gone. Locks the finished jobs and waits for none.
-- $1 tenant, $2 lifetime in seconds, $3 after this job, $4 rows.
WITH looked_at AS MATERIALIZED (
    SELECT r.id FROM hourglass.job_results r
    WHERE r.tenant_id = $1 AND r.id > $3
      AND r.id < (SELECT hourglass.first_id_of(clock_timestamp() - make_interval(secs => $2)))
    ORDER BY r.id LIMIT $4
), due AS MATERIALIZED (
    SELECT d.id
    FROM unnest(ARRAY(SELECT id FROM looked_at)) AS l (id)
    JOIN hourglass.finished_jobs d ON d.tenant_id = $1 AND d.id = l.id
    WHERE d.end_time < (SELECT clock_timestamp() - make_interval(secs => $2))
      AND NOT EXISTS (SELECT FROM hourglass.job_events e WHERE e.tenant_id = $1 AND e.job_id = l.id OFFSET 0)
    ORDER BY d.id
    FOR NO KEY UPDATE OF d SKIP LOCKED
), trimmed AS (
    DELETE FROM hourglass.job_results r
    USING unnest(ARRAY(SELECT id FROM due)) AS d (id)
    WHERE r.tenant_id = $1 AND r.id = d.id
    RETURNING r.id
)
SELECT (SELECT count(*) FROM looked_at) AS looked_at, (SELECT count(*) FROM trimmed) AS trimmed,
       (SELECT id FROM looked_at ORDER BY id DESC LIMIT 1) AS last
