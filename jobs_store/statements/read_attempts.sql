-- The ended attempts of a job, by number.
SELECT number, worker_id, claim_time, send_time, first_token_time, end_time, outcome, cause, error_class, error_message,
       provider_request_id, counted, input_tokens, cached_input_tokens, output_tokens, cost, cost_basis, worst_case
FROM hourglass.attempts
WHERE tenant_id = $1 AND job_id = $2
ORDER BY number
