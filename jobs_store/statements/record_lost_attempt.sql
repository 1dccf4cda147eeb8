-- The one write that a run may make after it lost its lease: what its own attempt cost, by its own token, on the row that
-- whoever took the job has written. While the job is unfinished its row has the sum over its attempts, which decides
-- whether another one may follow, so the difference goes there; nothing else of the row changes.
-- What cost nothing, because it was refused, is an estimate of nothing here: the outcome on the row stays UNKNOWN, and
-- what an UNKNOWN attempt cost is always known on some basis.
-- Locks: the job, waited for, then the attempt.
WITH job AS MATERIALIZED (
    SELECT id FROM hourglass.jobs WHERE tenant_id = $1 AND id = $2 FOR NO KEY UPDATE
), before AS MATERIALIZED (
    SELECT a.cost, a.worst_case
    FROM hourglass.attempts a
    WHERE a.tenant_id = $1 AND a.job_id = $2 AND a.number = $3 AND a.run_token = $4 AND a.send_time IS NOT NULL
      AND a.cost_basis IS DISTINCT FROM 'REPORTED' AND (SELECT count(*) FROM job) >= 0
    FOR NO KEY UPDATE
), attempt AS (
    UPDATE hourglass.attempts a
    SET provider_request_id = $5, input_tokens = $6, cached_input_tokens = $7, output_tokens = $8, cost = $9,
        cost_basis = coalesce($10, 'ESTIMATED'), worst_case = $11, first_token_time = coalesce(a.first_token_time, $12)
    FROM before
    WHERE a.tenant_id = $1 AND a.job_id = $2 AND a.number = $3 AND a.run_token = $4
    RETURNING a.number
), spent AS (
    UPDATE hourglass.jobs j
    SET known_cost = greatest(j.known_cost + $9 - before.cost, 0),
        unknown_cost = greatest(j.unknown_cost + $11 - before.worst_case, 0)
    FROM before
    WHERE j.tenant_id = $1 AND j.id = $2
)
SELECT count(*) AS hit FROM attempt
