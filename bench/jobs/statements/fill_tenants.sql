-- A hundred tenants who have money enough and no limit that a worker meets, and the lanes.
WITH tenant AS (
    INSERT INTO hourglass.tenants (tenant_id, display_name)
    SELECT 'tenant-' || lpad(n::text, 3, '0'), 'Tenant' FROM generate_series(0, 99) n
    RETURNING tenant_id
), limits AS (
    INSERT INTO hourglass.tenant_limits (tenant_id, max_running, max_queued) SELECT tenant_id, 10000, 10000000 FROM tenant
), funds AS (
    INSERT INTO hourglass.tenant_funds (tenant_id, funded, available) SELECT tenant_id, 1000000, 1000000 FROM tenant
)
INSERT INTO hourglass.lanes (lane) VALUES ('instant/fast'), ('instant/pair'), ('simulated/simulated-fast')
