-- Remembers a quote and leaves an audit row, in the one statement that reads the tenant's funds. No row: no such tenant.
WITH funds AS (
    SELECT f.tenant_id, f.available FROM hourglass.tenant_funds f WHERE f.tenant_id = $1
), quote AS (
    INSERT INTO hourglass.quotes
        (tenant_id, id, principal, create_time, expire_time, input_token_bound, max_output_tokens, lines)
    SELECT tenant_id, $2, $3, clock_timestamp(), clock_timestamp() + make_interval(secs => $4), $5, $6, $7::jsonb
    FROM funds
    RETURNING tenant_id, expire_time
), audit AS (
    INSERT INTO hourglass.audit_log (tenant_id, id, action, actor, subject, details)
    SELECT tenant_id, $8, 'QUOTE', $3, 'quote:' || $2::text, jsonb_build_object('lines', jsonb_array_length($7::jsonb))
    FROM quote
)
SELECT q.expire_time, f.available FROM quote q JOIN funds f ON f.tenant_id = q.tenant_id
