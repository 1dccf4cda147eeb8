-- Jobs as create_job makes them, without keys: $1 jobs, evenly over the tenants, in lane $2 for model $3. Their ids are in
-- the order of their making, as with any service that makes them.
WITH made AS MATERIALIZED (
    SELECT 'tenant-' || lpad((n % 100)::text, 3, '0') AS tenant_id, uuidv7() AS id, clock_timestamp() AS now
    FROM generate_series(1, $1::bigint) n
), job AS (
    INSERT INTO hourglass.jobs
        (tenant_id, id, lane, spec_version, priority, state, state_cause, epoch, last_sequence, update_time, ready_time,
         queue_start_time, queue_deadline)
    SELECT tenant_id, id, $2::text, 1, 0, 'QUEUED', 'CREATED', 1, (1::bigint << 32) + 1, now, now, now, now + interval '1 day'
    FROM made
), facts AS (
    INSERT INTO hourglass.job_facts
        (tenant_id, id, principal, model, provider, lane, spec_version, create_time, labels, traceparent, tracestate,
         create_ledger, max_output_tokens, attempt_timeout, queue_timeout, max_attempts, unknown_outcome_policy,
         price_basis, price_version, rate_card, provider_rate_card, input_token_bound, input_token_estimate, quoted_amount,
         attempt_worst_case, provider_cost_limit)
    SELECT tenant_id, id, 'ada', $3::text, split_part($2, '/', 1), $2, 1, now, '{"team": "search"}', '', '',
           'pricing/GetPrice 4.2/300 of 1900 ok', 100, 90, 86400, 3, 'RETRY', 'LIVE', '1', $4::jsonb, $4, 200, 90, 0.01, 0.001,
           0.01
    FROM made
), payload AS (
    INSERT INTO hourglass.job_payloads (tenant_id, id, messages, sampling)
    SELECT tenant_id, id, '[{"role": "user", "content": "Say hello."}]', '{}' FROM made
), reservation AS (
    INSERT INTO hourglass.reservations (tenant_id, job_id, number, amount, create_time)
    SELECT tenant_id, id, 1, 0.01, now FROM made
), event AS (
    INSERT INTO hourglass.job_events (tenant_id, job_id, sequence, kind, event_time, attempt_number, attributes)
    SELECT tenant_id, id, (1::bigint << 32) + 1, 'STATE_CHANGED', now, 0,
           jsonb_build_object('state', 'QUEUED', 'cause', 'CREATED', 'last_durable_sequence', 0, 'ready_time', now)
    FROM made
), counted AS (
    SELECT tenant_id, count(*) AS jobs FROM made GROUP BY tenant_id
), queued AS (
    UPDATE hourglass.tenant_limits l SET queued = l.queued + c.jobs FROM counted c WHERE l.tenant_id = c.tenant_id
)
UPDATE hourglass.tenant_funds f SET available = f.available - 0.01 * c.jobs, reserved = f.reserved + 0.01 * c.jobs
FROM counted c WHERE f.tenant_id = c.tenant_id
