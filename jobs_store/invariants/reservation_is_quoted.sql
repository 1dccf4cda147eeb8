-- Every reservation of a job sets aside what the job was quoted at.
SELECT r.tenant_id, r.job_id::text AS subject,
       format('reservation %s is of %s, the job was quoted at %s', r.number, r.amount, f.quoted_amount) AS description
FROM hourglass.reservations r
JOIN hourglass.job_facts f
    ON f.tenant_id = r.tenant_id AND f.id = r.job_id AND (f.tenant_id, f.id) > ($1, $2) AND (f.tenant_id, f.id) <= ($3, $4)
WHERE (r.tenant_id, r.job_id) > ($1, $2) AND (r.tenant_id, r.job_id) <= ($3, $4)
  AND r.amount <> f.quoted_amount
