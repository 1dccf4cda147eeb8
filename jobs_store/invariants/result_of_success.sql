-- Only what succeeded has a result, that of the attempt that the job ended with; and all that succeeded has one, until it is
-- erased or its log has gone.
WITH result AS (
    SELECT tenant_id, id, attempt_number FROM hourglass.job_results
    WHERE (tenant_id, id) > ($1, $2) AND (tenant_id, id) <= ($3, $4)
), success AS (
    SELECT d.tenant_id, d.id, d.attempt_number, d.erase_time,
           EXISTS (SELECT FROM hourglass.job_events e WHERE e.tenant_id = d.tenant_id AND e.job_id = d.id) AS has_log
    FROM hourglass.finished_jobs d
    WHERE (d.tenant_id, d.id) > ($1, $2) AND (d.tenant_id, d.id) <= ($3, $4)
      AND d.state = 'SUCCEEDED'
)
SELECT coalesce(r.tenant_id, d.tenant_id) AS tenant_id, coalesce(r.id, d.id)::text AS subject,
       CASE WHEN d.id IS NULL THEN 'has a result and did not succeed'
            WHEN r.id IS NULL THEN 'succeeded and has no result'
            ELSE format('ended with attempt %s, and has the result of %s', d.attempt_number, r.attempt_number)
            END AS description
FROM result r
FULL JOIN success d ON d.tenant_id = r.tenant_id AND d.id = r.id
WHERE d.id IS NULL OR r.attempt_number <> d.attempt_number OR (r.id IS NULL AND d.erase_time IS NULL AND d.has_log)
