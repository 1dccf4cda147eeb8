-- Makes a tenant with its limits and empty funds; answers nothing when it exists.
WITH tenant AS (
    INSERT INTO hourglass.tenants (tenant_id, display_name, request_rate) VALUES ($1, $2, $6)
    ON CONFLICT (tenant_id) DO NOTHING
    RETURNING tenant_id
), limits AS (
    INSERT INTO hourglass.tenant_limits (tenant_id, max_running, max_queued, weight)
    SELECT tenant_id, $3, $4, $5 FROM tenant
), funds AS (
    INSERT INTO hourglass.tenant_funds (tenant_id) SELECT tenant_id FROM tenant
)
SELECT tenant_id FROM tenant
