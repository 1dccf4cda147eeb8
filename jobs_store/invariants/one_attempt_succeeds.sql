-- A job succeeds by one attempt, its last, and an attempt succeeds only where its job did: nothing is accepted twice.
-- About jobs that have their payload, and so their attempts.
WITH stands AS (
    SELECT tenant_id, id, state, attempt_number FROM hourglass.jobs
    WHERE (tenant_id, id) > ($1, $2) AND (tenant_id, id) <= ($3, $4)
    UNION ALL
    SELECT tenant_id, id, state, attempt_number FROM hourglass.finished_jobs
    WHERE (tenant_id, id) > ($1, $2) AND (tenant_id, id) <= ($3, $4)
), succeeded AS (
    SELECT tenant_id, job_id AS id, count(*) AS attempts, max(number) AS last
    FROM hourglass.attempts
    WHERE (tenant_id, job_id) > ($1, $2) AND (tenant_id, job_id) <= ($3, $4)
      AND outcome = 'SUCCEEDED'
    GROUP BY tenant_id, job_id
)
SELECT s.tenant_id, s.id::text AS subject,
       format('is %s with %s successful attempts, the last of them %s of %s', s.state, coalesce(a.attempts, 0),
              coalesce(a.last, 0), s.attempt_number) AS description
FROM stands s
JOIN hourglass.job_payloads p
    ON p.tenant_id = s.tenant_id AND p.id = s.id AND (p.tenant_id, p.id) > ($1, $2) AND (p.tenant_id, p.id) <= ($3, $4)
LEFT JOIN succeeded a ON a.tenant_id = s.tenant_id AND a.id = s.id
WHERE coalesce(a.attempts, 0) <> (s.state = 'SUCCEEDED')::integer OR a.last <> s.attempt_number
