-- What of the latest attempt's answer was delivered for certain (the flushed deltas), and what a cancel is charged by.
SELECT f.rate_card, f.input_token_estimate,
       (SELECT coalesce(sum((e.attributes ->> 'token_count')::bigint), 0) FROM hourglass.job_events e
        WHERE e.tenant_id = f.tenant_id AND e.job_id = f.id AND e.attempt_number = $3 AND e.kind = 'TOKEN_DELTA'
       ) AS delivered_tokens
FROM hourglass.job_facts f
WHERE f.tenant_id = $1 AND f.id = $2
