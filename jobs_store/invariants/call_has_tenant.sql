-- Every short call belongs to a tenant that is known.
SELECT c.tenant_id, c.id::text AS subject, 'belongs to a tenant that is not known' AS description
FROM hourglass.calls c
WHERE (c.tenant_id, c.id) > ($1, $2) AND (c.tenant_id, c.id) <= ($3, $4)
  AND NOT EXISTS (SELECT FROM hourglass.tenants t WHERE t.tenant_id = c.tenant_id)
