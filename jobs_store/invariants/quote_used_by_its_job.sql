-- The quote that a job was priced by, as long as it is kept, names that job as the one that used it.
SELECT f.tenant_id, f.id::text AS subject,
       format('was priced by the quote %s, which %s', f.quote_id,
              coalesce('job ' || q.used_job_id || ' has used', 'nobody has used')) AS description
FROM hourglass.job_facts f
CROSS JOIN LATERAL (
    SELECT u.used_job_id FROM hourglass.quotes u WHERE u.tenant_id = f.tenant_id AND u.id = f.quote_id OFFSET 0
) q
WHERE (f.tenant_id, f.id) > ($1, $2) AND (f.tenant_id, f.id) <= ($3, $4)
  AND f.quote_id IS NOT NULL AND q.used_job_id IS DISTINCT FROM f.id
