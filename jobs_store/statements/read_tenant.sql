-- A tenant with its limits and funds.
SELECT t.tenant_id, t.display_name, t.create_time, t.update_time, t.retention, l.max_running, l.max_queued, l.weight,
       t.request_rate, l.running, l.queued, f.funded, f.available, f.reserved, f.captured
FROM hourglass.tenants t
JOIN hourglass.tenant_limits l ON l.tenant_id = t.tenant_id
JOIN hourglass.tenant_funds f ON f.tenant_id = t.tenant_id
WHERE t.tenant_id = $1
