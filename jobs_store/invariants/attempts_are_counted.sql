-- A job's count of attempts is the number of those that count, since an operator last retried it. The log tells which
-- attempts were before that. About jobs that have their payload, and so their attempts and their log.
WITH stands AS (
    SELECT tenant_id, id, counted_attempts FROM hourglass.jobs
    WHERE (tenant_id, id) > ($1, $2) AND (tenant_id, id) <= ($3, $4)
    UNION ALL
    SELECT tenant_id, id, counted_attempts FROM hourglass.finished_jobs
    WHERE (tenant_id, id) > ($1, $2) AND (tenant_id, id) <= ($3, $4)
), retried AS (
    SELECT tenant_id, job_id AS id, max(sequence) AS sequence FROM hourglass.job_events
    WHERE (tenant_id, job_id) > ($1, $2) AND (tenant_id, job_id) <= ($3, $4)
      AND kind = 'STATE_CHANGED' AND attributes ->> 'cause' = 'RETRIED'
    GROUP BY tenant_id, job_id
), before AS (
    SELECT r.tenant_id, r.id, max(e.attempt_number) AS number
    FROM retried r
    JOIN hourglass.job_events e
        ON e.tenant_id = r.tenant_id AND e.job_id = r.id AND e.sequence < r.sequence
        AND (e.tenant_id, e.job_id) > ($1, $2) AND (e.tenant_id, e.job_id) <= ($3, $4)
    GROUP BY r.tenant_id, r.id
), counted AS (
    SELECT a.tenant_id, a.job_id AS id, count(*) AS attempts
    FROM hourglass.attempts a
    LEFT JOIN before b ON b.tenant_id = a.tenant_id AND b.id = a.job_id
    WHERE (a.tenant_id, a.job_id) > ($1, $2) AND (a.tenant_id, a.job_id) <= ($3, $4)
      AND a.counted AND a.number > coalesce(b.number, 0)
    GROUP BY a.tenant_id, a.job_id
)
SELECT s.tenant_id, s.id::text AS subject,
       format('counts %s attempts, and has %s that count', s.counted_attempts, coalesce(c.attempts, 0)) AS description
FROM stands s
JOIN hourglass.job_payloads p
    ON p.tenant_id = s.tenant_id AND p.id = s.id AND (p.tenant_id, p.id) > ($1, $2) AND (p.tenant_id, p.id) <= ($3, $4)
LEFT JOIN counted c ON c.tenant_id = s.tenant_id AND c.id = s.id
WHERE coalesce(c.attempts, 0) <> s.counted_attempts
