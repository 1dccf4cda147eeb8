-- What a job asks and what was answered, as far as they are kept.
SELECT p.messages, p.sampling, r.text, r.finish_reason, r.provider_model, r.attempt_number, r.accept_time, r.input_tokens,
       r.cached_input_tokens, r.output_tokens
FROM (SELECT $1::text AS tenant_id, $2::uuid AS id) k
LEFT JOIN hourglass.job_payloads p ON p.tenant_id = k.tenant_id AND p.id = k.id
LEFT JOIN hourglass.job_results r ON r.tenant_id = k.tenant_id AND r.id = k.id
