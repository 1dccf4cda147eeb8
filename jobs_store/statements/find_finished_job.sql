-- Tells whether a job has ended.
SELECT state FROM hourglass.finished_jobs WHERE tenant_id = $1 AND id = $2
