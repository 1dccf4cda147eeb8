-- Nothing of a job outlives its facts: payload, result, row, attempts, log, reservations.
WITH kept AS (
    SELECT tenant_id, id, 'job_payloads' AS place FROM hourglass.job_payloads
    WHERE (tenant_id, id) > ($1, $2) AND (tenant_id, id) <= ($3, $4)
    UNION ALL
    SELECT tenant_id, id, 'job_results' FROM hourglass.job_results
    WHERE (tenant_id, id) > ($1, $2) AND (tenant_id, id) <= ($3, $4)
    UNION ALL
    SELECT tenant_id, id, 'jobs' FROM hourglass.jobs
    WHERE (tenant_id, id) > ($1, $2) AND (tenant_id, id) <= ($3, $4)
    UNION ALL
    SELECT tenant_id, id, 'finished_jobs' FROM hourglass.finished_jobs
    WHERE (tenant_id, id) > ($1, $2) AND (tenant_id, id) <= ($3, $4)
    UNION ALL
    SELECT tenant_id, job_id, 'attempts' FROM hourglass.attempts
    WHERE (tenant_id, job_id) > ($1, $2) AND (tenant_id, job_id) <= ($3, $4)
    UNION ALL
    SELECT tenant_id, job_id, 'job_events' FROM hourglass.job_events
    WHERE (tenant_id, job_id) > ($1, $2) AND (tenant_id, job_id) <= ($3, $4)
    UNION ALL
    SELECT tenant_id, job_id, 'reservations' FROM hourglass.reservations
    WHERE (tenant_id, job_id) > ($1, $2) AND (tenant_id, job_id) <= ($3, $4)
)
SELECT k.tenant_id, k.id::text AS subject,
       'is not in job_facts, but in ' || string_agg(DISTINCT k.place, ', ' ORDER BY k.place) AS description
FROM kept k
LEFT JOIN hourglass.job_facts f
    ON f.tenant_id = k.tenant_id AND f.id = k.id AND (f.tenant_id, f.id) > ($1, $2) AND (f.tenant_id, f.id) <= ($3, $4)
WHERE f.id IS NULL
GROUP BY k.tenant_id, k.id
