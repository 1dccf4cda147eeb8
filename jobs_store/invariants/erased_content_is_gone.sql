-- A job whose content was erased has no payload, no result and no deltas.
WITH content AS (
    SELECT tenant_id, id, 'job_payloads' AS place FROM hourglass.job_payloads
    WHERE (tenant_id, id) > ($1, $2) AND (tenant_id, id) <= ($3, $4)
    UNION ALL
    SELECT tenant_id, id, 'job_results' FROM hourglass.job_results
    WHERE (tenant_id, id) > ($1, $2) AND (tenant_id, id) <= ($3, $4)
    UNION ALL
    SELECT tenant_id, job_id, 'job_events' FROM hourglass.job_events
    WHERE (tenant_id, job_id) > ($1, $2) AND (tenant_id, job_id) <= ($3, $4)
      AND kind = 'TOKEN_DELTA'
)
SELECT d.tenant_id, d.id::text AS subject,
       'was erased, and has content in ' || string_agg(DISTINCT c.place, ', ' ORDER BY c.place) AS description
FROM hourglass.finished_jobs d
JOIN content c ON c.tenant_id = d.tenant_id AND c.id = d.id
WHERE (d.tenant_id, d.id) > ($1, $2) AND (d.tenant_id, d.id) <= ($3, $4)
  AND d.erase_time IS NOT NULL
GROUP BY d.tenant_id, d.id
