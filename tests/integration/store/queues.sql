-- Two lanes with work for a hundred tenants each. In one of them another tenant, the first in every order, has 12,000 jobs
-- that only its limit keeps from running.
INSERT INTO hourglass.tenants (tenant_id, display_name)
SELECT 'tenant-' || lpad(n::text, 3, '0'), 'Tenant' FROM generate_series(0, 99) n
UNION ALL SELECT 'at-its-limit', 'Tenant';
INSERT INTO hourglass.tenant_limits (tenant_id, max_running, queued)
SELECT tenant_id, 1000, 100000 FROM hourglass.tenants WHERE tenant_id <> 'at-its-limit'
UNION ALL SELECT 'at-its-limit', 0, 12000;
INSERT INTO hourglass.lanes (lane) VALUES ('simulated/balanced'), ('simulated/skewed');

CREATE TEMP TABLE queue AS
SELECT row_number() OVER () AS n, q.*,
       (lpad(to_hex(floor(extract(epoch FROM now()) * 1000)::bigint), 12, '0') || '70008'
        || lpad(to_hex(row_number() OVER ()), 15, '0'))::uuid AS id
FROM (
    SELECT 'simulated/balanced' AS lane, 'tenant-' || lpad((n % 100)::text, 3, '0') AS tenant_id, 0 AS priority
    FROM generate_series(1, 30000) n
    UNION ALL
    SELECT 'simulated/skewed', 'tenant-' || lpad((n % 100)::text, 3, '0'), 0 FROM generate_series(1, 3000) n
    UNION ALL
    SELECT 'simulated/skewed', 'at-its-limit', n % 3 FROM generate_series(1, 12000) n
) q;
INSERT INTO hourglass.job_facts
    (tenant_id, id, principal, model, provider, lane, spec_version, create_time, labels, traceparent, tracestate,
     create_ledger, max_output_tokens, attempt_timeout, queue_timeout, max_attempts, unknown_outcome_policy, price_basis,
     price_version, rate_card, provider_rate_card, input_token_bound, input_token_estimate, quoted_amount,
     attempt_worst_case, provider_cost_limit)
SELECT tenant_id, id, 'ada', 'fast', 'simulated', lane, 1, now(), '{}', '', '', '', 100, 90, 86400, 3, 'RETRY', 'LIVE', '1',
       '{}', '{}', 100, 100, 0.01, 0.01, 0.1
FROM queue;
INSERT INTO hourglass.job_payloads (tenant_id, id, messages, sampling) SELECT tenant_id, id, '[]', '{}' FROM queue;
INSERT INTO hourglass.jobs
    (tenant_id, id, lane, spec_version, priority, state, state_cause, epoch, last_sequence, update_time, ready_time,
     queue_start_time, queue_deadline)
SELECT tenant_id, id, lane, 1, priority, 'QUEUED', 'CREATED', 1, (1::bigint << 32) + 1, now(),
       now() - interval '1 hour' + n * interval '10 ms', now() - interval '1 hour', now() + interval '1 day'
FROM queue ORDER BY n;
ANALYZE;
