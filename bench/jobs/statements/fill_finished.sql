-- $2 jobs that ended over the last six days, from number $1 of $3 on, each with all that a job leaves behind.
WITH made AS MATERIALIZED (
    SELECT 'tenant-' || lpad((n % 100)::text, 3, '0') AS tenant_id, t.now, uuidv7(t.now - clock_timestamp()) AS id,
           gen_random_uuid() AS run_token
    FROM generate_series($1::bigint, $1 + $2::bigint - 1) n
    CROSS JOIN LATERAL (SELECT now() - interval '6 days' * (1 - n::double precision / $3::bigint) AS now) t
), facts AS (
    INSERT INTO hourglass.job_facts
        (tenant_id, id, principal, model, provider, lane, spec_version, create_time, labels, traceparent, tracestate,
         create_ledger, max_output_tokens, attempt_timeout, queue_timeout, max_attempts, unknown_outcome_policy,
         price_basis, price_version, rate_card, provider_rate_card, input_token_bound, input_token_estimate, quoted_amount,
         attempt_worst_case, provider_cost_limit)
    SELECT tenant_id, id, 'ada', 'fast', 'instant', 'instant/fast', 1, now, '{"team": "search"}', '', '',
           'pricing/GetPrice 4.2/300 of 1900 ok', 100, 90, 86400, 3, 'RETRY', 'LIVE', '1', $4::jsonb, $4, 200, 90, 0.01, 0.001,
           0.01
    FROM made
), payload AS (
    INSERT INTO hourglass.job_payloads (tenant_id, id, messages, sampling)
    SELECT tenant_id, id, '[{"role": "user", "content": "Say hello."}]', '{}' FROM made
), result AS (
    INSERT INTO hourglass.job_results
        (tenant_id, id, attempt_number, accept_time, finish_reason, provider_model, input_tokens, cached_input_tokens,
         output_tokens, text)
    SELECT tenant_id, id, 1, now, 'STOP', 'fast', 12, 0, 3, 'Hello there.' FROM made
), finished AS (
    INSERT INTO hourglass.finished_jobs
        (tenant_id, id, lane, spec_version, priority, state, state_cause, epoch, last_sequence, end_time, ready_time,
         attempt_number, counted_attempts, reservation_number)
    SELECT tenant_id, id, 'instant/fast', 1, 0, 'SUCCEEDED', 'ACCEPTED', 2, (2::bigint << 32) + 9, now, now, 1, 1, 1 FROM made
), attempt AS (
    INSERT INTO hourglass.attempts
        (tenant_id, job_id, number, run_token, worker_id, claim_time, send_time, first_token_time, end_time, outcome, cause,
         provider_request_id, counted, input_tokens, output_tokens, cost, cost_basis)
    SELECT tenant_id, id, 1, run_token, 'worker', now, now, now, now, 'SUCCEEDED', 'COMPLETED', 'instant', true, 12, 3, 0.00024,
           'REPORTED'
    FROM made
), reservation AS (
    INSERT INTO hourglass.reservations
        (tenant_id, job_id, number, amount, captured, released, create_time, settle_time, settle_cause)
    SELECT tenant_id, id, 1, 0.01, 0.00024, 0.00976, now, now, 'ACCEPTED' FROM made
)
INSERT INTO hourglass.job_events (tenant_id, job_id, sequence, kind, event_time, attempt_number, text, attributes)
SELECT m.tenant_id, m.id, e.sequence, e.kind, m.now, e.attempt_number, e.text, e.attributes
FROM made m
CROSS JOIN (VALUES
    ((1::bigint << 32) + 1, 'STATE_CHANGED', 0, NULL, '{"state": "QUEUED", "cause": "CREATED"}'::jsonb),
    ((2::bigint << 32) + 1, 'STATE_CHANGED', 0, NULL, '{"state": "RUNNING", "cause": "CLAIMED"}'),
    ((2::bigint << 32) + 2, 'ATTEMPT_STARTED', 1, NULL, '{"worker_id": "worker"}'),
    ((2::bigint << 32) + 3, 'ATTEMPT_SENT', 1, NULL, '{"provider": "instant", "provider_model": "fast"}'),
    ((2::bigint << 32) + 4, 'TOKEN_DELTA', 1, 'Hello there.', '{"offset": 0, "token_count": 1}'),
    ((2::bigint << 32) + 5, 'USAGE_REPORTED', 1, NULL, '{"input_tokens": 12, "output_tokens": 3}'),
    ((2::bigint << 32) + 6, 'COST_RECORDED', 1, NULL, '{"amount": "0.00024", "basis": "REPORTED"}'),
    ((2::bigint << 32) + 7, 'ATTEMPT_ENDED', 1, NULL, '{"outcome": "SUCCEEDED", "cause": "COMPLETED"}'),
    ((2::bigint << 32) + 8, 'RESULT_ACCEPTED', 1, NULL, '{"finish_reason": "STOP", "text_length": 12}'),
    ((2::bigint << 32) + 9, 'STATE_CHANGED', 0, NULL, '{"state": "SUCCEEDED", "cause": "ACCEPTED", "terminal": true}')
) AS e (sequence, kind, attempt_number, text, attributes)
