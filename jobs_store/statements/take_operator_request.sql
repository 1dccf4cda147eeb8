-- Takes an operator's request_id for a decision and leaves its audit row, or answers that it was taken before. Two at
-- once: the second waits on the primary key, and finds it taken after the first one's commit or free after its rollback.
-- $1 tenant, $2 request_id, $3 action, $4 digest of what is asked, $5 audit id, $6 actor, $7 reason, $8 subject, $9 details.
WITH taken AS (
    INSERT INTO hourglass.operator_requests (tenant_id, request_id, action, request_digest)
    VALUES ($1, $2, $3, $4)
    ON CONFLICT (tenant_id, request_id) DO NOTHING
    RETURNING tenant_id, request_id, action
), audit AS (
    INSERT INTO hourglass.audit_log (tenant_id, id, action, actor, request_id, reason, subject, details)
    SELECT tenant_id, $5, action, $6, request_id, $7, $8, $9::jsonb FROM taken
)
SELECT EXISTS (SELECT FROM taken) AS is_new
