-- Every tenant has its limits and its funds.
SELECT t.tenant_id, t.tenant_id AS subject,
       concat_ws(', ', CASE WHEN l.tenant_id IS NULL THEN 'has no limits' END,
                 CASE WHEN f.tenant_id IS NULL THEN 'has no funds' END) AS description
FROM hourglass.tenants t
LEFT JOIN hourglass.tenant_limits l ON l.tenant_id = t.tenant_id
LEFT JOIN hourglass.tenant_funds f ON f.tenant_id = t.tenant_id
WHERE t.tenant_id = ANY ($1::text[])
  AND (l.tenant_id IS NULL OR f.tenant_id IS NULL)
