-- Deletes the attempts of a tenant's jobs that ended $2 seconds ago or longer and cannot run again, because their payload
-- has gone: what they cost decides whether a job may. Steps from job to job, fifty at most, and deletes $4 attempts of them
-- at most. What they cost moves to the tenant's archived costs in the same statement.
-- Locks: finished jobs, waiting for none, then the archived costs, in order of lanes.
-- $1 tenant, $2 lifetime in seconds, $3 after this job, $4 rows.
WITH RECURSIVE looked_at AS (
    (SELECT a.job_id AS id, 1 AS place FROM hourglass.attempts a
     WHERE a.tenant_id = $1 AND a.job_id > $3
       AND a.job_id < (SELECT hourglass.first_id_of(clock_timestamp() - make_interval(secs => $2)))
     ORDER BY a.job_id LIMIT 1)
    UNION ALL
    SELECT n.job_id, l.place + 1
    FROM looked_at l
    CROSS JOIN LATERAL (
        SELECT a.job_id FROM hourglass.attempts a
        WHERE a.tenant_id = $1 AND a.job_id > l.id
          AND a.job_id < (SELECT hourglass.first_id_of(clock_timestamp() - make_interval(secs => $2)))
        ORDER BY a.job_id LIMIT 1
    ) n
    WHERE l.place < 50
), due AS MATERIALIZED (
    SELECT d.id, d.lane
    FROM unnest(ARRAY(SELECT id FROM looked_at)) AS l (id)
    JOIN hourglass.finished_jobs d ON d.tenant_id = $1 AND d.id = l.id
    WHERE d.end_time < (SELECT clock_timestamp() - make_interval(secs => $2))
      AND NOT EXISTS (SELECT FROM hourglass.job_payloads p WHERE p.tenant_id = $1 AND p.id = l.id OFFSET 0)
    ORDER BY d.id
    FOR NO KEY UPDATE OF d SKIP LOCKED
), doomed AS MATERIALIZED (
    SELECT t.job_id, t.number, d.lane
    FROM unnest(ARRAY(SELECT id FROM due), ARRAY(SELECT lane FROM due)) AS d (id, lane)
    CROSS JOIN LATERAL (
        SELECT a.job_id, a.number FROM hourglass.attempts a
        WHERE a.tenant_id = $1 AND a.job_id = d.id ORDER BY a.number LIMIT $4
    ) t
    LIMIT $4
), trimmed AS (
    DELETE FROM hourglass.attempts a
    USING unnest(ARRAY(SELECT job_id FROM doomed), ARRAY(SELECT number FROM doomed), ARRAY(SELECT lane FROM doomed))
        AS d (job_id, number, lane)
    WHERE a.tenant_id = $1 AND a.job_id = d.job_id AND a.number = d.number
    RETURNING d.lane, a.cost, a.worst_case
), archived AS (
    INSERT INTO hourglass.archived_costs AS c (tenant_id, lane, attempts, cost, worst_case)
    SELECT $1, lane, count(*), sum(cost), sum(worst_case) FROM trimmed GROUP BY lane ORDER BY lane
    ON CONFLICT (tenant_id, lane) DO UPDATE
        SET attempts = c.attempts + excluded.attempts, cost = c.cost + excluded.cost,
            worst_case = c.worst_case + excluded.worst_case
)
SELECT (SELECT count(*) FROM looked_at) AS looked_at, (SELECT count(*) FROM trimmed) AS trimmed,
       (SELECT id FROM looked_at ORDER BY id DESC LIMIT 1) AS last
