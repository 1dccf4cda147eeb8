-- Closes a lane for all workers for a while; of two parkings the later end holds. The row in lane_closures is what a job's
-- queue timeout is spared, so a lane that is closed already gets a longer closure, not a second one beside it. Waits for
-- the lane's row. $1 lane, $2 seconds, $3 cause.
WITH parked AS (
    UPDATE hourglass.lanes
    SET park_until = clock_timestamp() + make_interval(secs => $2), park_cause = $3
    WHERE lane = $1 AND coalesce(park_until < clock_timestamp() + make_interval(secs => $2), true)
    RETURNING lane, park_until
), extended AS (
    UPDATE hourglass.lane_closures c
    SET end_time = p.park_until
    FROM parked p
    WHERE c.lane = p.lane AND c.end_time >= clock_timestamp() AND c.end_time < p.park_until
    RETURNING c.lane
)
INSERT INTO hourglass.lane_closures (lane, start_time, end_time, cause)
SELECT lane, clock_timestamp(), park_until, $3 FROM parked WHERE lane NOT IN (SELECT lane FROM extended)
