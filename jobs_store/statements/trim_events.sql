-- Deletes the logs of a tenant's jobs that ended $2 seconds ago or longer and cannot run again, because their payload has
-- gone. The last event goes first: by that a reader knows that a log is not whole any more. Steps from job to job, fifty at
-- most, and deletes $4 events of them at most. Locks the finished jobs and waits for none.
-- $1 tenant, $2 lifetime in seconds, $3 after this job, $4 rows.
WITH RECURSIVE looked_at AS (
    (SELECT e.job_id AS id, 1 AS place FROM hourglass.job_events e
     WHERE e.tenant_id = $1 AND e.job_id > $3
       AND e.job_id < (SELECT hourglass.first_id_of(clock_timestamp() - make_interval(secs => $2)))
     ORDER BY e.job_id LIMIT 1)
    UNION ALL
    SELECT n.job_id, l.place + 1
    FROM looked_at l
    CROSS JOIN LATERAL (
        SELECT e.job_id FROM hourglass.job_events e
        WHERE e.tenant_id = $1 AND e.job_id > l.id
          AND e.job_id < (SELECT hourglass.first_id_of(clock_timestamp() - make_interval(secs => $2)))
        ORDER BY e.job_id LIMIT 1
    ) n
    WHERE l.place < 50
), due AS MATERIALIZED (
    SELECT d.id
    FROM unnest(ARRAY(SELECT id FROM looked_at)) AS l (id)
    JOIN hourglass.finished_jobs d ON d.tenant_id = $1 AND d.id = l.id
    WHERE d.end_time < (SELECT clock_timestamp() - make_interval(secs => $2))
      AND NOT EXISTS (SELECT FROM hourglass.job_payloads p WHERE p.tenant_id = $1 AND p.id = l.id OFFSET 0)
    ORDER BY d.id
    FOR NO KEY UPDATE OF d SKIP LOCKED
), doomed AS MATERIALIZED (
    SELECT e.job_id, e.sequence
    FROM unnest(ARRAY(SELECT id FROM due)) AS d (id)
    CROSS JOIN LATERAL (
        SELECT v.job_id, v.sequence FROM hourglass.job_events v
        WHERE v.tenant_id = $1 AND v.job_id = d.id ORDER BY v.sequence DESC LIMIT $4
    ) e
    LIMIT $4
), trimmed AS (
    DELETE FROM hourglass.job_events e
    USING unnest(ARRAY(SELECT job_id FROM doomed), ARRAY(SELECT sequence FROM doomed)) AS d (job_id, sequence)
    WHERE e.tenant_id = $1 AND e.job_id = d.job_id AND e.sequence = d.sequence
    RETURNING e.job_id
)
SELECT (SELECT count(*) FROM looked_at) AS looked_at, (SELECT count(*) FROM trimmed) AS trimmed,
       (SELECT id FROM looked_at ORDER BY id DESC LIMIT 1) AS last
