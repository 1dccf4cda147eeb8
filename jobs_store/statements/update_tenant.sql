-- Changes a tenant's name, limits and lifetimes: null leaves what there is. $6 takes the place of all lifetimes that the
-- tenant had; a $7 of 0 gives up its own rate. Answers nothing when there is no such tenant. Locks the tenant, then its limits, which claims and creates
-- also lock: it waits for them, and they see the new limits next.
WITH tenant AS (
    UPDATE hourglass.tenants
    SET display_name = coalesce($2, display_name), retention = coalesce($6::jsonb, retention),
        request_rate = CASE WHEN $7::double precision = 0 THEN NULL ELSE coalesce($7, request_rate) END,
        update_time = clock_timestamp()
    WHERE tenant_id = $1
    RETURNING tenant_id
)
UPDATE hourglass.tenant_limits l
SET max_running = coalesce($3, l.max_running), max_queued = coalesce($4, l.max_queued), weight = coalesce($5, l.weight)
FROM tenant t
WHERE l.tenant_id = t.tenant_id
RETURNING l.tenant_id
