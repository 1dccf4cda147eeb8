-- A job is unfinished or finished: never both, never neither.
SELECT f.tenant_id, f.id::text AS subject,
       CASE WHEN j.id IS NULL THEN 'stands neither in jobs nor in finished_jobs'
            ELSE 'stands in jobs and in finished_jobs' END AS description
FROM hourglass.job_facts f
LEFT JOIN hourglass.jobs j
    ON j.tenant_id = f.tenant_id AND j.id = f.id AND (j.tenant_id, j.id) > ($1, $2) AND (j.tenant_id, j.id) <= ($3, $4)
LEFT JOIN hourglass.finished_jobs d
    ON d.tenant_id = f.tenant_id AND d.id = f.id AND (d.tenant_id, d.id) > ($1, $2) AND (d.tenant_id, d.id) <= ($3, $4)
WHERE (f.tenant_id, f.id) > ($1, $2) AND (f.tenant_id, f.id) <= ($3, $4)
  AND (j.id IS NULL) = (d.id IS NULL)
