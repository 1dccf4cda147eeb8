-- A page of the workers that run jobs, by name, as their leases show them: reads every running row, which are as many as
-- the workers have slots. $1 after this worker, $2 workers.
SELECT j.worker_id, (array_agg(j.worker_address ORDER BY j.lease_until DESC))[1] AS address, count(*) AS running,
       min(j.lease_until) AS earliest_lease_until
FROM hourglass.jobs j
WHERE j.state = 'RUNNING' AND j.worker_id > $1
GROUP BY j.worker_id
ORDER BY j.worker_id
LIMIT $2
