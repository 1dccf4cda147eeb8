-- Every claim of a job stands in its log, once: nothing runs unseen. About jobs that have their payload, and so their log.
WITH stands AS (
    SELECT tenant_id, id, attempt_number FROM hourglass.jobs
    WHERE (tenant_id, id) > ($1, $2) AND (tenant_id, id) <= ($3, $4)
    UNION ALL
    SELECT tenant_id, id, attempt_number FROM hourglass.finished_jobs
    WHERE (tenant_id, id) > ($1, $2) AND (tenant_id, id) <= ($3, $4)
), started AS (
    SELECT tenant_id, job_id AS id, count(*) AS events, count(DISTINCT attempt_number) AS attempts,
           max(attempt_number) AS last
    FROM hourglass.job_events
    WHERE (tenant_id, job_id) > ($1, $2) AND (tenant_id, job_id) <= ($3, $4)
      AND kind = 'ATTEMPT_STARTED'
    GROUP BY tenant_id, job_id
)
SELECT s.tenant_id, s.id::text AS subject,
       format('was claimed %s times, and its log has %s starts of %s attempts, up to number %s', s.attempt_number,
              coalesce(e.events, 0), coalesce(e.attempts, 0), coalesce(e.last, 0)) AS description
FROM stands s
JOIN hourglass.job_payloads p
    ON p.tenant_id = s.tenant_id AND p.id = s.id AND (p.tenant_id, p.id) > ($1, $2) AND (p.tenant_id, p.id) <= ($3, $4)
LEFT JOIN started e ON e.tenant_id = s.tenant_id AND e.id = s.id
WHERE (coalesce(e.events, 0), coalesce(e.attempts, 0), coalesce(e.last, 0))
      <> (s.attempt_number, s.attempt_number, s.attempt_number)
