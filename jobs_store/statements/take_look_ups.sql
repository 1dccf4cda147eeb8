-- Takes held jobs whose provider can be asked what became of their attempt: each goes to one process, and to none for the
-- next $2 seconds. Answers what an acceptance needs, and how much of the answer stands in the log. Held jobs are few; their
-- partial index is read from the hold that ends first. Locks jobs and waits for none.
-- $1 providers (the first parts of lanes), $2 seconds between two look-ups of a job, $3 jobs, $4 newest spec version.
WITH due AS MATERIALIZED (
    SELECT j.tenant_id, j.id
    FROM hourglass.jobs j
    WHERE j.state = 'HELD' AND split_part(j.lane, '/', 1) = ANY ($1::text[]) AND j.spec_version <= $4
      AND coalesce(j.look_up_time < (SELECT clock_timestamp() - make_interval(secs => $2)), true)
    ORDER BY j.hold_until
    LIMIT $3
    FOR NO KEY UPDATE SKIP LOCKED
), taken AS (
    UPDATE hourglass.jobs j SET look_up_time = clock_timestamp()
    FROM due d
    WHERE j.tenant_id = d.tenant_id AND j.id = d.id
    RETURNING j.tenant_id, j.id, j.lane, j.epoch, j.run_token, j.attempt_number, j.counted_attempts, j.crash_count,
              j.known_cost, j.unknown_cost, j.last_sequence
)
SELECT t.tenant_id, t.id, t.lane, t.epoch, t.run_token, t.attempt_number, t.counted_attempts, t.crash_count, t.known_cost,
       t.unknown_cost, t.last_sequence, a.claim_time,
       f.principal, f.model, f.provider, f.traceparent, f.tracestate, f.create_time, f.max_output_tokens,
       f.attempt_timeout, f.max_attempts, f.unknown_outcome_policy, f.rate_card, f.provider_rate_card,
       f.input_token_bound, f.input_token_estimate, f.attempt_worst_case, f.provider_cost_limit,
       '[]'::jsonb AS messages, '{}'::jsonb AS sampling, d.delivered_tokens, d.delivered_length
FROM taken t
JOIN hourglass.job_facts f ON f.tenant_id = t.tenant_id AND f.id = t.id
JOIN hourglass.attempts a ON a.tenant_id = t.tenant_id AND a.job_id = t.id AND a.number = t.attempt_number
CROSS JOIN LATERAL (
    SELECT coalesce(sum((e.attributes ->> 'token_count')::bigint), 0)::bigint AS delivered_tokens,
           coalesce(sum(length(e.text)), 0)::bigint AS delivered_length
    FROM hourglass.job_events e
    WHERE e.tenant_id = t.tenant_id AND e.job_id = t.id AND e.attempt_number = t.attempt_number AND e.kind = 'TOKEN_DELTA'
) d
