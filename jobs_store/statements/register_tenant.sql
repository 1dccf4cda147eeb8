-- Makes a tenant with its limits and empty funds for an operator's request, which it remembers and audits; all of it or,
-- when the tenant exists, nothing. Two at once: the second waits on the primary key and finds the tenant.
WITH tenant AS (
    INSERT INTO hourglass.tenants (tenant_id, display_name, retention, request_rate) VALUES ($1, $2, $11::jsonb, $12)
    ON CONFLICT (tenant_id) DO NOTHING
    RETURNING tenant_id
), limits AS (
    INSERT INTO hourglass.tenant_limits (tenant_id, max_running, max_queued, weight)
    SELECT tenant_id, $3, $4, $5 FROM tenant
), funds AS (
    INSERT INTO hourglass.tenant_funds (tenant_id) SELECT tenant_id FROM tenant
), request AS (
    INSERT INTO hourglass.operator_requests (tenant_id, request_id, action, request_digest)
    SELECT tenant_id, $6, 'CREATE_TENANT', $7 FROM tenant
), audit AS (
    INSERT INTO hourglass.audit_log (tenant_id, id, action, actor, request_id, reason, subject)
    SELECT tenant_id, $10, 'CREATE_TENANT', $8, $6, $9, 'tenant:' || tenant_id FROM tenant
)
SELECT EXISTS (SELECT FROM tenant) AS is_new
