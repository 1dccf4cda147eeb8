-- Running jobs whose lease is over, the longest first, with what a takeover is decided by. Uses the small partial index of
-- running rows; the sub-select makes the clock a value that is read once. A job of a newer spec is left to processes that
-- know it. Takes no lock: the takeover checks again under its own. $1 jobs, $2 newest spec version.
WITH expired AS MATERIALIZED (
    SELECT j.tenant_id, j.id, j.run_token, j.epoch, j.attempt_number, j.counted_attempts, j.crash_count, j.known_cost,
           j.unknown_cost, j.send_time, j.cancel_request_time, j.cancel_principal, j.cancel_reason, j.lease_until
    FROM hourglass.jobs j
    WHERE j.state = 'RUNNING' AND j.lease_until < (SELECT clock_timestamp()) AND j.spec_version <= $2
    ORDER BY j.lease_until
    LIMIT $1
)
SELECT j.tenant_id, j.id, j.run_token, j.epoch, j.attempt_number, j.counted_attempts, j.crash_count, j.known_cost,
       j.unknown_cost, j.send_time, j.cancel_request_time, f.rate_card, f.max_attempts, f.unknown_outcome_policy,
       f.attempt_worst_case, f.provider_cost_limit, f.input_token_estimate, j.cancel_principal, j.cancel_reason,
       extract(epoch FROM clock_timestamp() - j.lease_until)::double precision AS overdue,
       (SELECT coalesce(sum((e.attributes ->> 'token_count')::bigint), 0) FROM hourglass.job_events e
        WHERE j.cancel_request_time IS NOT NULL AND e.tenant_id = j.tenant_id AND e.job_id = j.id
          AND e.attempt_number = j.attempt_number AND e.kind = 'TOKEN_DELTA') AS delivered_tokens
FROM expired j
JOIN hourglass.job_facts f ON f.tenant_id = j.tenant_id AND f.id = j.id
