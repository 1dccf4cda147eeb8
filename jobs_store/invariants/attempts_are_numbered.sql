-- Attempts are numbered as their job was claimed: each number once, each under a token of its own, none beyond the last
-- claim. Retention takes attempts only after the payload, so this is about jobs that have theirs.
WITH stands AS (
    SELECT tenant_id, id, attempt_number, (state = 'RUNNING')::integer AS running FROM hourglass.jobs
    WHERE (tenant_id, id) > ($1, $2) AND (tenant_id, id) <= ($3, $4)
    UNION ALL
    SELECT tenant_id, id, attempt_number, 0 FROM hourglass.finished_jobs
    WHERE (tenant_id, id) > ($1, $2) AND (tenant_id, id) <= ($3, $4)
), ended AS (
    SELECT tenant_id, job_id AS id, count(*) AS all, max(number) AS last, count(DISTINCT run_token) AS tokens
    FROM hourglass.attempts
    WHERE (tenant_id, job_id) > ($1, $2) AND (tenant_id, job_id) <= ($3, $4)
    GROUP BY tenant_id, job_id
)
SELECT s.tenant_id, s.id::text AS subject,
       format('was claimed %s times; %s attempts ended, up to number %s, under %s tokens, and %s runs', s.attempt_number,
              coalesce(a.all, 0), coalesce(a.last, 0), coalesce(a.tokens, 0), s.running) AS description
FROM stands s
JOIN hourglass.job_payloads p
    ON p.tenant_id = s.tenant_id AND p.id = s.id AND (p.tenant_id, p.id) > ($1, $2) AND (p.tenant_id, p.id) <= ($3, $4)
LEFT JOIN ended a ON a.tenant_id = s.tenant_id AND a.id = s.id
WHERE coalesce(a.all, 0) + s.running <> s.attempt_number OR a.last > s.attempt_number - s.running OR a.tokens <> a.all
