-- No job runs on a lease that ended long ago: the reaper takes such jobs over. $5: how many seconds are long.
SELECT j.tenant_id, j.id::text AS subject,
       format('runs on worker %s, whose lease ended at %s', j.worker_id, j.lease_until) AS description
FROM hourglass.jobs j
WHERE (j.tenant_id, j.id) > ($1, $2) AND (j.tenant_id, j.id) <= ($3, $4)
  AND j.state = 'RUNNING' AND j.lease_until < (SELECT clock_timestamp() - make_interval(secs => $5))
