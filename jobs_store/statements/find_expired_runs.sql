-- Running jobs whose lease is over, with what a takeover is decided by. Uses the small partial index of running rows; the
-- sub-select makes the clock a value that is read once. Takes no lock: the takeover checks again under its own.
SELECT j.tenant_id, j.id, j.run_token, j.epoch, j.attempt_number, j.counted_attempts, j.crash_count, j.known_cost,
       j.unknown_cost, j.send_time, j.cancel_request_time, f.rate_card, f.max_attempts, f.unknown_outcome_policy,
       f.attempt_worst_case, f.provider_cost_limit, f.input_token_estimate, j.cancel_principal, j.cancel_reason,
       (SELECT coalesce(sum((e.attributes ->> 'token_count')::bigint), 0) FROM hourglass.job_events e
        WHERE j.cancel_request_time IS NOT NULL AND e.tenant_id = j.tenant_id AND e.job_id = j.id
          AND e.attempt_number = j.attempt_number AND e.kind = 'TOKEN_DELTA') AS delivered_tokens
FROM hourglass.jobs j
JOIN hourglass.job_facts f ON f.tenant_id = j.tenant_id AND f.id = j.id
WHERE j.state = 'RUNNING' AND j.lease_until < (SELECT clock_timestamp())
LIMIT $1
