-- Takes the next tenants of the pass that all processes share, or none: it is not due, or somebody is taking theirs. The
-- pass ends with a page that is not full, and the next one is due $2 seconds later. $1 tenants a page.
WITH turn AS MATERIALIZED (
    SELECT after_tenant FROM hourglass.retention_turn
    WHERE due_time <= clock_timestamp()
    FOR NO KEY UPDATE SKIP LOCKED
), page AS MATERIALIZED (
    SELECT t.tenant_id, t.retention
    FROM turn
    CROSS JOIN LATERAL (
        SELECT tenant_id, retention FROM hourglass.tenants
        WHERE tenant_id > turn.after_tenant ORDER BY tenant_id LIMIT $1
    ) t
), moved AS (
    UPDATE hourglass.retention_turn r
    SET after_tenant = CASE WHEN p.ends THEN '' ELSE p.last END,
        due_time = CASE WHEN p.ends THEN clock_timestamp() + make_interval(secs => $2) ELSE r.due_time END
    FROM (SELECT count(*) < $1 AS ends, max(tenant_id) AS last FROM page) p
    WHERE EXISTS (SELECT FROM turn)
    RETURNING p.ends
)
SELECT m.ends,
       (SELECT coalesce(jsonb_agg(jsonb_build_object('tenant_id', tenant_id, 'retention', retention) ORDER BY tenant_id), '[]')
        FROM page) AS tenants
FROM moved m
