-- What a tenant was funded with is what it has available, reserved and captured together, none of them below zero.
SELECT f.tenant_id, f.tenant_id AS subject,
       format('was funded with %s, and has %s available, %s reserved, %s captured, %s of them archived', f.funded,
              f.available, f.reserved, f.captured, f.archived_captured) AS description
FROM hourglass.tenant_funds f
WHERE f.tenant_id = ANY ($1::text[])
  AND (f.funded <> f.available + f.reserved + f.captured
       OR least(f.available, f.reserved, f.captured, f.archived_captured, f.captured - f.archived_captured) < 0)
