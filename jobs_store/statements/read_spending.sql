-- What another attempt of a held job may cost, and how much of its provider_cost_limit is left: its attempts' own sums
-- stand on the row, which the caller has locked.
SELECT f.attempt_worst_case, f.provider_cost_limit - j.known_cost - j.unknown_cost AS cost_limit_left
FROM hourglass.jobs j
JOIN hourglass.job_facts f ON f.tenant_id = j.tenant_id AND f.id = j.id
WHERE j.tenant_id = $1 AND j.id = $2
