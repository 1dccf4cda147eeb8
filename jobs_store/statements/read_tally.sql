-- What has happened to a job so far, as its row says now: since the claim an earlier run may have told what its attempt
-- cost. No row: the token has gone. Takes no lock. $1 tenant, $2 job, $3 run token.
SELECT j.counted_attempts, j.crash_count, j.known_cost, j.unknown_cost, j.attempt_number
FROM hourglass.jobs j
WHERE j.tenant_id = $1 AND j.id = $2 AND j.run_token = $3
