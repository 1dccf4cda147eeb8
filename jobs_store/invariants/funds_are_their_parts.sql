-- What a tenant has reserved is the sum of its open reservations and calls; what was captured is the sum of the settled
-- ones and of what retention has archived of them.
WITH part AS (
    SELECT tenant_id, coalesce(sum(amount) FILTER (WHERE settle_time IS NULL), 0) AS reserved, sum(captured) AS captured
    FROM hourglass.reservations WHERE tenant_id = ANY ($1::text[]) GROUP BY tenant_id
    UNION ALL
    SELECT tenant_id, coalesce(sum(amount) FILTER (WHERE settle_time IS NULL), 0), sum(captured)
    FROM hourglass.calls WHERE tenant_id = ANY ($1::text[]) GROUP BY tenant_id
), whole AS (
    SELECT tenant_id, sum(reserved) AS reserved, sum(captured) AS captured FROM part GROUP BY tenant_id
)
SELECT f.tenant_id, f.tenant_id AS subject,
       format('has %s reserved and %s captured, %s of that archived; its reservations and calls say %s and %s', f.reserved,
              f.captured, f.archived_captured, coalesce(w.reserved, 0), coalesce(w.captured, 0)) AS description
FROM hourglass.tenant_funds f
LEFT JOIN whole w ON w.tenant_id = f.tenant_id
WHERE f.tenant_id = ANY ($1::text[])
  AND (f.reserved, f.captured - f.archived_captured) <> (coalesce(w.reserved, 0), coalesce(w.captured, 0))
