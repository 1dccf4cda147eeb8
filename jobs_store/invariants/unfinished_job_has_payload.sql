-- Every job that may run has its payload.
SELECT j.tenant_id, j.id::text AS subject, format('is %s, and has no payload', j.state) AS description
FROM hourglass.jobs j
LEFT JOIN hourglass.job_payloads p
    ON p.tenant_id = j.tenant_id AND p.id = j.id AND (p.tenant_id, p.id) > ($1, $2) AND (p.tenant_id, p.id) <= ($3, $4)
WHERE (j.tenant_id, j.id) > ($1, $2) AND (j.tenant_id, j.id) <= ($3, $4)
  AND p.id IS NULL
