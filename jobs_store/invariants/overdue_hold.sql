-- No job is held long after its hold has ended: the reaper fails such jobs. $5: how many seconds are long.
SELECT j.tenant_id, j.id::text AS subject, format('is HELD until %s', j.hold_until) AS description
FROM hourglass.jobs j
WHERE (j.tenant_id, j.id) > ($1, $2) AND (j.tenant_id, j.id) <= ($3, $4)
  AND j.state = 'HELD' AND j.hold_until < (SELECT clock_timestamp() - make_interval(secs => $5))
