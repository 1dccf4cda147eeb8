-- Every job belongs to a tenant that is known.
SELECT f.tenant_id, f.id::text AS subject, 'belongs to a tenant that is not known' AS description
FROM hourglass.job_facts f
WHERE (f.tenant_id, f.id) > ($1, $2) AND (f.tenant_id, f.id) <= ($3, $4)
  AND NOT EXISTS (SELECT FROM hourglass.tenants t WHERE t.tenant_id = f.tenant_id)
