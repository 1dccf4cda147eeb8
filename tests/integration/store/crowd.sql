-- A crowded database: finished, queued and running jobs of 100 tenants over the last week. Statistics are taken while
-- nothing runs, because a plan made then must serve when many do.
CREATE FUNCTION pg_temp.job_id(instant timestamptz, n bigint) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
    SELECT (lpad(to_hex(floor(extract(epoch FROM instant) * 1000)::bigint), 12, '0') || '7' || lpad(to_hex(n % 4096), 3, '0')
            || '8' || lpad(to_hex(n), 15, '0'))::uuid
$$;

INSERT INTO hourglass.tenants (tenant_id, display_name)
SELECT 'tenant-' || lpad(n::text, 3, '0'), 'Tenant' FROM generate_series(0, 99) n;
INSERT INTO hourglass.tenant_limits (tenant_id, max_running) SELECT tenant_id, 1000 FROM hourglass.tenants;
INSERT INTO hourglass.tenant_funds (tenant_id, funded, available, reserved)
SELECT tenant_id, 2000000, 1000000, 1000000 FROM hourglass.tenants;
INSERT INTO hourglass.lanes (lane) VALUES ('simulated/fast');

CREATE TEMP TABLE crowd AS
SELECT n, 'tenant-' || lpad((n % 100)::text, 3, '0') AS tenant_id, t.create_time, pg_temp.job_id(t.create_time, n) AS id,
       CASE WHEN n <= :finished THEN 'FINISHED' WHEN n <= :finished + :queued THEN 'QUEUED' ELSE 'RUNNING' END AS state
FROM generate_series(1, :finished + :queued + :running) n
CROSS JOIN LATERAL (
    SELECT now() - interval '6 days' * (1 - n::float / (:finished + :queued + :running)) AS create_time
) t;

INSERT INTO hourglass.job_facts
    (tenant_id, id, principal, model, provider, lane, spec_version, create_time, labels, traceparent, tracestate,
     create_ledger, max_output_tokens, attempt_timeout, queue_timeout, max_attempts, unknown_outcome_policy, price_basis,
     price_version, rate_card, provider_rate_card, input_token_bound, input_token_estimate, quoted_amount,
     attempt_worst_case, provider_cost_limit)
SELECT tenant_id, id, 'ada', 'fast', 'simulated', 'simulated/fast', 1, create_time, '{}', '', '', '', 100, 90, 86400, 3,
       'RETRY', 'LIVE', '1', '{}', '{}', 100, 100, 0.01, 0.01, 0.1
FROM crowd ORDER BY n;
INSERT INTO hourglass.finished_jobs
    (tenant_id, id, lane, spec_version, priority, state, state_cause, epoch, last_sequence, end_time, ready_time,
     attempt_number, counted_attempts, reservation_number)
SELECT tenant_id, id, 'simulated/fast', 1, 0, 'SUCCEEDED', 'ACCEPTED', 2, (2::bigint << 32) + 5, create_time, create_time, 1,
       1, 1
FROM crowd WHERE state = 'FINISHED' ORDER BY n;
INSERT INTO hourglass.attempts
    (tenant_id, job_id, number, run_token, worker_id, claim_time, end_time, outcome, cause, counted, cost, cost_basis)
SELECT tenant_id, id, 1, id, 'w', create_time, create_time, 'SUCCEEDED', 'COMPLETED', true, 0.001, 'REPORTED'
FROM crowd WHERE state = 'FINISHED' ORDER BY n;
INSERT INTO hourglass.reservations
    (tenant_id, job_id, number, amount, captured, create_time, settle_time, settle_cause)
SELECT tenant_id, id, 1, 0.01, CASE WHEN state = 'FINISHED' THEN 0.01 ELSE 0 END, create_time,
       CASE WHEN state = 'FINISHED' THEN create_time END, CASE WHEN state = 'FINISHED' THEN 'ACCEPTED' END
FROM crowd ORDER BY n;
INSERT INTO hourglass.job_events (tenant_id, job_id, sequence, kind, event_time, attempt_number)
SELECT tenant_id, id, (2::bigint << 32) + 5, 'STATE_CHANGED', create_time, 0 FROM crowd WHERE state = 'FINISHED' ORDER BY n;
INSERT INTO hourglass.job_payloads (tenant_id, id, messages, sampling)
SELECT tenant_id, id, '[]', '{}' FROM crowd WHERE state <> 'FINISHED' ORDER BY n;
INSERT INTO hourglass.jobs
    (tenant_id, id, lane, spec_version, priority, state, state_cause, epoch, last_sequence, update_time, ready_time,
     queue_start_time, queue_deadline)
SELECT tenant_id, id, 'simulated/fast', 1, 0, 'QUEUED', 'CREATED', 1, (1::bigint << 32) + 1, create_time, create_time,
       create_time, now() + interval '1 day'
FROM crowd WHERE state = 'QUEUED' ORDER BY n;
UPDATE hourglass.tenant_limits SET queued = :queued / 100;

ANALYZE;

INSERT INTO hourglass.jobs
    (tenant_id, id, lane, spec_version, priority, state, state_cause, epoch, last_sequence, update_time, ready_time,
     queue_start_time, queue_deadline, run_token, worker_id, worker_address, claim_time, send_time, lease_until,
     attempt_number)
SELECT tenant_id, id, 'simulated/fast', 1, 0, 'RUNNING', 'CLAIMED', 2, (2::bigint << 32) + 3, create_time, create_time,
       create_time, now() + interval '1 day', id, 'w', 'w:1', create_time, create_time, now() + interval '1 hour', 1
FROM crowd WHERE state = 'RUNNING' ORDER BY n;
UPDATE hourglass.tenant_limits SET running = :running / 100;
UPDATE hourglass.lanes SET running = :running;
