-- The one write that a run may make after it lost its lease: what its own attempt cost, by its own token, on the row that
-- whoever took the job has written. A job's cost is the sum over its attempts, so nothing else has to change.
WITH attempt AS (
    UPDATE hourglass.attempts
    SET provider_request_id = $5, input_tokens = $6, cached_input_tokens = $7, output_tokens = $8, cost = $9,
        cost_basis = $10, worst_case = $11, first_token_time = coalesce(first_token_time, $12)
    WHERE tenant_id = $1 AND job_id = $2 AND number = $3 AND run_token = $4 AND send_time IS NOT NULL
      AND cost_basis IS DISTINCT FROM 'REPORTED'
    RETURNING number
)
SELECT count(*) AS hit FROM attempt
