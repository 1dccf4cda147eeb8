-- Moves money in (or out, when negative), once a request_id, with its audit row. The funding row is the guard: a known
-- request_id moves nothing. The funds' CHECK refuses to take out more than is available.
WITH funding AS (
    INSERT INTO hourglass.fundings (tenant_id, request_id, amount, actor, reason)
    VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (tenant_id, request_id) DO NOTHING
    RETURNING tenant_id, amount
), funds AS (
    UPDATE hourglass.tenant_funds f
    SET funded = f.funded + n.amount, available = f.available + n.amount
    FROM funding n WHERE f.tenant_id = n.tenant_id
    RETURNING f.tenant_id, f.funded
), audit AS (
    INSERT INTO hourglass.audit_log (tenant_id, id, action, actor, request_id, reason, subject, details)
    SELECT tenant_id, $6, 'FUND_TENANT', $4, $2, $5, 'tenant:' || tenant_id, jsonb_build_object('amount', $3::text)
    FROM funds
)
SELECT EXISTS (SELECT FROM funding) AS is_new
