-- Finds a page of tenants: $3 of them after $1, or the one that $2 names. Takes no lock.
SELECT t.tenant_id
FROM hourglass.tenants t
WHERE t.tenant_id > $1 AND t.tenant_id = coalesce($2, t.tenant_id)
ORDER BY t.tenant_id
LIMIT $3
