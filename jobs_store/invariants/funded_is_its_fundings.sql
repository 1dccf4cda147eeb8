-- What a tenant was funded with is the sum of its fundings.
SELECT f.tenant_id, f.tenant_id AS subject,
       format('was funded with %s, and its fundings are %s', f.funded, coalesce(i.amount, 0)) AS description
FROM hourglass.tenant_funds f
LEFT JOIN (
    SELECT tenant_id, sum(amount) AS amount FROM hourglass.fundings WHERE tenant_id = ANY ($1::text[]) GROUP BY tenant_id
) i ON i.tenant_id = f.tenant_id
WHERE f.tenant_id = ANY ($1::text[])
  AND f.funded <> coalesce(i.amount, 0)
