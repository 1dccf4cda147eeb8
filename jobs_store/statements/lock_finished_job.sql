-- Locks a finished job so that what is decided about it is what happens.
SELECT state, erase_time
FROM hourglass.finished_jobs
WHERE tenant_id = $1 AND id = $2
FOR NO KEY UPDATE
