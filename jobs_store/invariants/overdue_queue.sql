-- No job waits long beyond its queue timeout: the reaper expires such jobs. The time in which a job's lane was closed does
-- not count. $5: how many seconds are long.
SELECT j.tenant_id, j.id::text AS subject,
       format('waits in lane %s since %s, and should have until %s', j.lane, j.queue_start_time, j.queue_deadline)
           AS description
FROM hourglass.jobs j
CROSS JOIN (SELECT clock_timestamp() - make_interval(secs => $5) AS long_ago) clock
WHERE (j.tenant_id, j.id) > ($1, $2) AND (j.tenant_id, j.id) <= ($3, $4)
  AND j.state = 'QUEUED' AND j.queue_deadline < clock.long_ago
  AND j.queue_deadline + coalesce((
      SELECT sum(upper(closed) - lower(closed))
      FROM unnest((
          SELECT range_agg(tstzrange(greatest(c.start_time, j.queue_start_time), least(c.end_time, clock.long_ago)))
          FROM hourglass.lane_closures c
          WHERE c.lane = j.lane AND c.start_time < least(c.end_time, clock.long_ago)
            AND j.queue_start_time < least(c.end_time, clock.long_ago)
      )) AS closed
  ), interval '0') < clock.long_ago
