-- Settles calls, each once: whoever comes second finds settle_time set, also when it waited for the first one's commit.
-- Captures the charge up to what was reserved and releases the rest; what goes beyond is the operator's overrun.
-- Answers those that were settled now.
-- Locks, each in order: calls, tenant funds.
WITH input AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset($1) AS r (
        tenant_id text, id uuid, outcome text, cause text, charge numeric, provider_request_id text, input_tokens bigint,
        cached_input_tokens bigint, output_tokens bigint, cost numeric, cost_basis text, worst_case numeric
    )
), unsettled AS MATERIALIZED (
    SELECT r.*
    FROM input r
    JOIN hourglass.calls c ON c.tenant_id = r.tenant_id AND c.id = r.id
    WHERE c.settle_time IS NULL
    ORDER BY c.tenant_id, c.id
    FOR NO KEY UPDATE OF c
), settled AS (
    UPDATE hourglass.calls c
    SET captured = least(c.amount, u.charge), released = c.amount - least(c.amount, u.charge),
        settle_time = clock_timestamp(), outcome = u.outcome, cause = u.cause,
        provider_request_id = u.provider_request_id, input_tokens = u.input_tokens,
        cached_input_tokens = u.cached_input_tokens, output_tokens = u.output_tokens, cost = u.cost,
        cost_basis = u.cost_basis, worst_case = coalesce(u.worst_case, c.worst_case)
    FROM unsettled u
    WHERE c.tenant_id = u.tenant_id AND c.id = u.id AND c.settle_time IS NULL
    RETURNING c.tenant_id, c.id, c.lane, c.amount, c.captured, c.released, u.charge, c.settle_time
), overrun AS (
    INSERT INTO hourglass.overruns (tenant_id, subject_id, reservation_number, amount, create_time)
    SELECT tenant_id, id, 1, charge - amount, settle_time FROM settled WHERE charge > amount
), locked_funds AS MATERIALIZED (
    SELECT f.tenant_id, n.amount, n.captured, n.released
    FROM hourglass.tenant_funds f
    JOIN (SELECT tenant_id, sum(amount) AS amount, sum(captured) AS captured, sum(released) AS released
          FROM settled GROUP BY tenant_id) n ON n.tenant_id = f.tenant_id
    ORDER BY f.tenant_id
    FOR NO KEY UPDATE OF f
), funds AS (
    UPDATE hourglass.tenant_funds f
    SET available = f.available + n.released, reserved = f.reserved - n.amount, captured = f.captured + n.captured
    FROM locked_funds n WHERE f.tenant_id = n.tenant_id
)
SELECT id, lane, captured, released FROM settled
