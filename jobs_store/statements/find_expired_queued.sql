-- Queued jobs that waited longer than their timeout. The time in which their lane was closed is not counted; closures that
-- overlap (a parking inside a pause) count once. Takes no lock: the ending checks again under its own.
SELECT j.tenant_id, j.id
FROM hourglass.jobs j
CROSS JOIN (SELECT clock_timestamp() AS now) clock
WHERE j.state = 'QUEUED' AND j.queue_deadline < (SELECT clock_timestamp())
  AND j.queue_deadline + coalesce((
      SELECT sum(upper(closed) - lower(closed))
      FROM unnest((
          SELECT range_agg(tstzrange(greatest(c.start_time, j.queue_start_time), least(c.end_time, clock.now)))
          FROM hourglass.lane_closures c
          WHERE c.lane = j.lane AND c.end_time > j.queue_start_time AND c.start_time < clock.now
      )) AS closed
  ), interval '0') < clock.now
ORDER BY j.queue_deadline
LIMIT $1
