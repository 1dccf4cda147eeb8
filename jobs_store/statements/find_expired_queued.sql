-- Queued jobs that waited longer than their timeout, the time in a closed lane not counted. Takes no lock.
SELECT j.tenant_id, j.id
FROM hourglass.jobs j
WHERE j.state = 'QUEUED' AND j.queue_deadline < (SELECT clock_timestamp())
  AND j.queue_deadline + coalesce((
      SELECT sum(least(c.end_time, clock_timestamp()) - greatest(c.start_time, j.queue_start_time))
      FROM hourglass.lane_closures c
      WHERE c.lane = j.lane AND c.end_time > j.queue_start_time AND c.start_time < clock_timestamp()
  ), interval '0') < clock_timestamp()
ORDER BY j.queue_deadline
LIMIT $1
