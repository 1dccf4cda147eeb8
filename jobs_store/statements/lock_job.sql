-- Locks an unfinished job so that what is decided about it is what happens.
SELECT state, run_token, attempt_number
FROM hourglass.jobs
WHERE tenant_id = $1 AND id = $2
FOR NO KEY UPDATE
